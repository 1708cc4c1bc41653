/** Times as people say them. Everything takes `now`, so that nothing here reads a clock. */

/**
 * What is left until a moment, such as `4:05`, `2 h 10 min` or `3 d`.
 * @param {number} ms
 */
export function left(ms) {
  if (ms <= 0) return "0:00";
  const seconds = Math.ceil(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)}:${String(seconds % 60).padStart(2, "0")}`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  return `${Math.floor(minutes / 1440)} d`;
}

/**
 * How long something took, such as `340 ms` or `2.1 s`.
 * @param {number} ms
 */
export function took(ms) {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return left(ms);
}

/**
 * When something happened, as a person would say it.
 * @param {number} at
 * @param {number} now
 */
export function when(at, now) {
  const ago = now - at;
  if (ago < 45_000) return "just now";
  if (ago < 3_600_000) return `${Math.round(ago / 60_000)} min ago`;
  const date = new Date(at);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });
  const sameDay = date.toDateString() === new Date(now).toDateString();
  return sameDay ? time : `${date.toLocaleDateString([], { day: "numeric", month: "short" })}, ${time}`;
}

/**
 * The exact moment, for titles and logs.
 * @param {number} at
 */
export function exact(at) {
  return new Date(at).toISOString().replace("T", " ").replace("Z", " UTC");
}
