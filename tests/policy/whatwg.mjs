// What browsers and node read: lines "h HEX" or "p HEX" in; the host or the path of a URL with it,
// in hex, or "-" if it is none. Node 20 looks for dots only behind the first "/.", so "/." is put in
// front of paths: it means nothing, and makes it look at all of them.
import { createInterface } from "node:readline";

const out = [];
for await (const line of createInterface({ input: process.stdin })) {
  const text = Buffer.from(line.slice(2), "hex").toString("latin1");
  try {
    const url = new URL(line[0] === "h" ? `http://${text}/` : `http://h/.${text}`);
    const part = line[0] === "h" ? url.hostname : url.pathname;
    const whole = line[0] === "h" ? url.pathname === "/" && !url.username && !url.port : url.host === "h";
    out.push(whole ? Buffer.from(part, "latin1").toString("hex") : "-");
  } catch {
    out.push("-");
  }
}
process.stdout.write(out.join("\n") + "\n");
