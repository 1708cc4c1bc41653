/** A schema of any library that follows Standard Schema, or a plain JSON Schema. */
export interface StandardSchema<Out = unknown> {
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (
      value: unknown,
    ) =>
      | { readonly value: Out; readonly issues?: undefined }
      | { readonly issues: ReadonlyArray<{ readonly message: string }> }
      | Promise<
          | { readonly value: Out; readonly issues?: undefined }
          | { readonly issues: ReadonlyArray<{ readonly message: string }> }
        >;
    readonly types?: { readonly input: unknown; readonly output: Out } | undefined;
    readonly jsonSchema?: {
      readonly input: (options: { readonly target: string }) => Record<string, unknown>;
    };
  };
}

export type JsonSchema = { readonly type: "object"; readonly [member: string]: unknown };

/** What a tool's functions are told beside the arguments. */
export interface Context {
  readonly tool: string;
  readonly session: string;
  readonly call: string;
  /** Which attempt of the call this is, from 1. */
  readonly attempt: number;
  /** The same for every attempt of the call and for no other call: an idempotency key. */
  readonly key: string;
  readonly tenant: string;
  readonly actor: { readonly kind: string; readonly id: string };
  readonly userId: string;
  /** Aborted when the call should stop. */
  readonly abortSignal: AbortSignal;
  /** Tells whoever watches how far the call is. */
  progress(value: unknown): void;
  /** Keeps an output of any size; it becomes an artifact of the result. */
  keep(title: string, data: Uint8Array | string, mediaType?: string): Promise<Record<string, unknown>>;
}

export type ToolMode = "read" | "safe_write" | "destructive" | "local" | "external";
export type ErrorClass =
  | "auth" | "cancelled" | "internal" | "invalid_args" | "rate_limited" | "timeout" | "tool_error" | "upstream";

export interface Preview {
  diff?: string;
  targets?: string[];
  /** What the preview rests on: if it has changed when the call runs, the approver is asked again. */
  state?: unknown;
}

export interface UndoSource { readonly source: "argument" | "result"; readonly pointer: string }

/** What a `verify` function returns when it cannot tell whether the call took effect. */
export const UNKNOWN: unique symbol;
/** A place in the arguments of the call that is taken back. */
export function argument(pointer: string): UndoSource;
/** A place in the result of the call that is taken back. */
export function result(pointer: string): UndoSource;

export interface ToolOptions<Args, Out> {
  name: string;
  description: string;
  /** Standard Schema that gives JSON Schema, such as Zod 4, or a JSON Schema. */
  schema: StandardSchema<Args> | JsonSchema;
  /** The JSON Schema of `schema`, for a library whose schemas do not give one themselves. */
  jsonSchema?: JsonSchema;
  execute(args: Args, context: Context): Out | Promise<Out>;
  mode?: ToolMode;
  approve?: boolean | "always" | "two";
  key?: boolean;
  idempotent?: boolean;
  /** Returns the result, `null` if the call did not take effect, or `UNKNOWN`. */
  verify?(args: Args, context: Context): unknown;
  preview?(args: Args, context: Context): Preview | string | Promise<Preview | string>;
  undo?: { tool: Tool<any, any> | string; within?: string; args: Record<string, unknown> };
  cost?: { amount: string | number; unit: string };
  timeout?: string | number;
  suspend?: string | number;
  retry?: number | { attempts: number; backoff?: string; on?: ErrorClass[] };
  secret?: string[];
  exclusive?: boolean;
  title?: string;
  tags?: string[];
  version?: string;
  interrupt?: "block" | "cancel";
}

export interface Tool<Args = unknown, Out = unknown> {
  (args: Args, context?: Partial<Context>): Out | Promise<Out>;
  readonly toolName: string;
  readonly definition: Record<string, any>;
  readonly options: ToolOptions<Args, Out>;
}

/** Makes a tool. Calling it calls `execute`. */
export function tool<Args, Out>(options: ToolOptions<Args, Out>): Tool<Args, Out>;

/** The call did not do what was asked; the model reads the message. */
export class ToolError extends Error {
  constructor(
    message: string,
    options?: {
      errorClass?: ErrorClass; debug?: string; partial?: unknown; effect?: "none" | "unknown" | "unsaid";
      needsFollowup?: boolean; terminal?: boolean;
    },
  );
}
/** Nobody knows whether the call took effect. */
export class EffectUnknown extends ToolError {
  constructor(message: string);
}
/** The call was told to stop. */
export class Cancelled extends ToolError {
  constructor(options?: { effect?: "none" | "unknown" | "unsaid" });
}

/** What a tool may return instead of a plain value. An object with any other member is a plain value. */
export interface ToolResult {
  success: boolean;
  terminal?: boolean;
  needsFollowup?: boolean;
  nextAction?: string;
  message?: string;
  error?: string;
  data?: Record<string, unknown>;
}
export interface ToolCall { id: string; name: string; arguments: Record<string, unknown> }

/** Whether a result ends the run: it says so, or it failed and asks for no follow-up. */
export function isTerminalResult(result: ToolResult): boolean;
/** The mode that a tool's name suggests; `null` if it suggests none. */
export function decideToolMode(name: string): ToolMode | null;

export interface WorkerOptions {
  /** Servers; `HAFT_URL` by default, several with commas. */
  url?: string | string[];
  /** A key with the scope `work`; `HAFT_API_KEY` by default. */
  key?: string;
  /** Give one only if at most one process has it at a time. */
  name?: string;
  slots?: number;
}

/** Runs the calls of tools for one or several servers. */
export class Worker {
  constructor(tools: Tool<any, any>[], options?: WorkerOptions);
  readonly name: string;
  /** Starts to work; resolves once a server knows the tools. */
  start(): Promise<this>;
  /** Works until the process is told to end. */
  run(): Promise<void>;
  /** Asks for no more jobs, and waits for those that run. */
  stop(): Promise<void>;
}

export class ApiError extends Error {
  readonly status: number;
  readonly code: string;
}

export interface Call {
  readonly session: string;
  readonly call: string;
  readonly state: "done" | "in_doubt" | "waiting";
  readonly outcome?: any;
  readonly because?: string;
  readonly value?: any;
  readonly error?: { class: ErrorClass | string; message: string };
}

/** Talks to a server, in Node.js and in browsers. */
export class Client {
  constructor(options?: { url?: string; key?: string });
  call(tool: string, args?: Record<string, unknown>, options?: { idempotencyKey?: string }): Promise<Call>;
  get(call: Pick<Call, "session" | "call">): Promise<any>;
  wait(call: Pick<Call, "session" | "call">, timeoutMs?: number): Promise<Call>;
  pending(): Promise<any[]>;
  approve(call: Pick<Call, "session" | "call">, options?: { arguments?: Record<string, unknown>; note?: string }): Promise<any>;
  deny(call: Pick<Call, "session" | "call">, note?: string): Promise<any>;
  settle(call: Pick<Call, "session" | "call">, verdict: "give_up" | "happened" | "run_again", value?: unknown): Promise<any>;
  cancel(call: Pick<Call, "session" | "call">): Promise<any>;
  undo(call: Pick<Call, "session" | "call">): Promise<any>;
  tools(): Promise<any[]>;
  request(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<any>;
}
