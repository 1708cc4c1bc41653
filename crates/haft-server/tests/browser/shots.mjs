import { launch, open, serveStatic, axeFindings } from "./harness.mjs";
const now = Date.now();
const diff = `--- a/src/greeting.rs
+++ b/src/greeting.rs
@@ -3,7 +3,9 @@
 /// Says hello.
 pub fn greet(name: &str) -> String {
-    format!("Hello, {name}")
+    // The name comes from outside: keep it short.
+    let name: String = name.chars().take(40).collect();
+    format!("Hello, {name}!")
 }
 
 #[cfg(test)]
`;
const page1 = `<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="color-scheme" content="light dark"><title>Elements</title><script type="module" src="/page.js"></script></head><body><main><h1>Elements</h1><h2>Cards</h2><haft-approval id="a"></haft-approval><haft-elicitation id="b"></haft-elicitation><haft-settlement id="c"></haft-settlement><haft-approval id="d"></haft-approval></main></body></html>`;
const js = `import "/elements/approval.js"; import "/elements/elicitation.js"; import "/elements/settlement.js";
import { tokens, base, sheet } from "/elements/theme.js";
document.adoptedStyleSheets=[tokens,base,sheet("body{background:var(--paper);color:var(--ink);font:14px var(--sans);margin:0} main{max-width:760px;margin:24px auto;display:grid;gap:20px;padding:0 16px}")];
const now=${now};
const common={session:"sesn_1",round:1,expires_at:now+271000,since:now-29000};
const derivation={decision:"ask",findings:[{source:"classifier",verdict:"allow",reason:"its changes are bounded"},{source:{rule:"protect-src"},verdict:"ask",reason:"changes below src/ are reviewed"},{source:"level",verdict:"ask",reason:"the standard level asks for everything that changes anything"}]};
a.pending={...common,call:"call_1",kind:"approval",tool:"file_edit",title:"Edit a file",detail:"Replaces text in one file",mode:"safe_write",reach:[],reversal:"undo",reason:"asked",derivation,arguments:{path:"/work/src/greeting.rs",old:"format!(\\"Hello, {name}\\")",new:"format!(\\"Hello, {name}!\\")",replace_all:false},input_schema:{type:"object",properties:{path:{type:"string"},old:{type:"string"},new:{type:"string"},replace_all:{type:"boolean"}},required:["path","old","new"]},preview:{targets:["/work/src/greeting.rs"],diff:${JSON.stringify(diff)}}};
b.pending={...common,call:"call_2",kind:"elicitation",tool:"ask_user",title:"Where should it go?",reason:"executor",expires_at:now+48000,arguments:{question:"The release notes are ready. Who should receive them, and when?"},answer_schema:{type:"object",properties:{recipient:{type:"string",format:"email",title:"E-mail",description:"One address"},when:{enum:["now","tonight","tomorrow morning"],title:"When"},copies:{type:"integer",minimum:0,maximum:5,title:"Copies"},urgent:{type:"boolean",title:"Mark as urgent"}},required:["recipient","when"]}};
c.pending={...common,call:"call_3",kind:"settlement",tool:"charge_card",title:"Charge a card",mode:"destructive",reach:["external_service"],consequence:"high",reason:"in_doubt",expires_at:now+86400000*6,arguments:{customer:"cus_812",cents:4900,card:"[redacted]"}};
d.pending={...common,call:"call_4",kind:"approval",tool:"delete_branch",mode:"destructive",reach:["network"],reason:"asked",expires_at:now+9000,derivation:{decision:"ask",findings:[{source:"classifier",verdict:"ask",reason:"it cannot be taken back"}]},arguments:{branch:"feature/old",cents:1200},input_schema:{type:"object",properties:{branch:{type:"string"}}}};
`;
const server = await serveStatic({ "/page.html": page1, "/page.js": js });
const browser = await launch();
for (const [scheme, width] of [["light", 900], ["dark", 420]]) {
  const page = await open(browser, `${server.base}/page.html`, { scheme, width, height: 1000 });
  await page.waitForTimeout(300);
  if (scheme === "light") { await page.locator("#d").getByText("Bounded…").click(); }
  await page.screenshot({ path: `/tmp/shot-${scheme}.png`, fullPage: true });
  console.log(scheme, await axeFindings(page), page.troubles);
}
await browser.close(); server.close();
