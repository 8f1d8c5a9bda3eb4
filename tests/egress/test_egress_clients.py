#!/usr/bin/python3 -B
"""Goal: programs that know nothing of a gateway just work where the policy allows, and are refused in words
where it does not: plain sockets, curl, wget, git, Python, node, a static binary; and by the explicit proxy.

    test_egress_clients.py CORDON PLAIN [name ...]

PLAIN is the static program plain.c. Runs in a small internet of its own (internet.py)."""
import os
import shutil
import subprocess
import sys
import tempfile

import internet
import languages_root
import level
import harness
from harness import Skip, check, equal, has, wait_for
from mcp_client import Client
from internet_client import TRUST, both, curl, make, policy, probe, put, records, recorded, sh, shared

PLAIN = ""


def have(server, s, program):
    done = sh(server, s, f"command -v {program}")
    if done["exit_code"] != 0:
        raise Skip(f"{program} is not on this machine")


def test_curl_http(server):
    s = shared(server)
    for user in ("root", "user"):
        code, status, text = curl(server, s, "http://web.example/echo?a=b", user=user)
        equal((code, status), (0, 200), text)
        has(text, '"path": "/echo?a=b"', "what the server saw")
    equal(len(internet.NET.hit("/echo", host="web.example")), 2, "hits")
    code, status, text = curl(server, s, "http://other.example/")
    equal((code, status), (0, 403), f"a name outside the policy ({text})")


def test_curl_https_passed_on(server):
    s = shared(server)
    code, status, text = curl(server, s, "https://web.example/echo", "--cacert", TRUST)
    equal((code, status), (0, 200), text)
    has(text, '"sni": "web.example"', "the server name")
    equal(curl(server, s, "https://web.example/echo")[0], 60, "the certificate is the server's own")


def test_curl_https_terminated(server):
    s = shared(server)
    code, status, text = curl(server, s, "https://look.example/open/x")
    equal((code, status), (0, 200), f"with the authority that cells trust ({text})")
    has(text, '"sni": "look.example"', "TLS to the server, too")
    code, status, text = curl(server, s, "https://look.example/shut")
    equal((code, status), (0, 403), text)
    has(text, "not allowed", "the reason")
    equal(internet.NET.hit("/shut"), [], "what was refused arrived")


def test_curl_http2_falls_back(server):
    s = shared(server)
    for url in ("https://look.example/open/2", "https://web.example/echo"):
        trust = ["--cacert", TRUST] if "web" in url else []
        code, status, text = curl(server, s, url, "--http2", "-o", "/dev/null", "-w", "%{http_version}\n%{http_code}",
                                  *trust)
        equal((code, status, text), (0, 200, "1.1"), url)


def test_curl_ipv6(server):
    s = make(server, policy({"host": "six.example"}, {"host": "web.example"}))
    for options, url in (((), "http://six.example/echo"), (("-6",), "http://six.example/echo"),
                         (("-4",), "http://six.example/echo"),
                         (("-6",), "http://web.example/echo"), (("-6", "--cacert", TRUST), "https://six.example/echo")):
        code, status, text = curl(server, s, url, *options)
        equal((code, status), (0, 200), f"{url} {options}: {text}")


def test_curl_uploads_and_downloads(server):
    s = make(server, policy({"host": "web.example"}, {"host": "look.example", "paths": ["/**"]}))
    for base, trust in (("http://web.example", ""), ("https://web.example", f"--cacert {TRUST}"),
                        ("https://look.example", "")):
        done = sh(server, s, f"head -c 5000000 /dev/urandom > /tmp/up; sha256sum < /tmp/up; "
                  f"curl -sS -m {20 * level.PATIENCE} {trust} -T /tmp/up {base}/echo; "
                  f"curl -sS -m {20 * level.PATIENCE} {trust} -H 'Transfer-Encoding: chunked' "
                  f"-d @/tmp/up -X POST {base}/echo | head -c 0; "
                  f"curl -sS -m {30 * level.PATIENCE} {trust} '{base}/huge?n=50000000' | wc -c", 0)
        has(done["stdout"], done["stdout"][:64] + '"', f"the digest of an upload to {base}")
        check(done["stdout"].endswith("50000000\n"), f"a download from {base}: {done['stdout'][-40:]}")


def test_one_large_download(server):
    s = make(server, policy({"host": "web.example"}))
    size = (1 << 30) // level.PATIENCE
    done = sh(server, s, f"curl -sS -m {60 * level.PATIENCE} 'http://web.example/huge?n={size}' | wc -c", 0)
    equal(done["stdout"].strip(), str(size), "its bytes")


def test_wget(server):
    s = shared(server)
    have(server, s, "wget")
    has(sh(server, s, "wget -q -T 10 -t 1 -O - http://web.example/echo", 0)["stdout"], "web.example", "http")
    has(sh(server, s, "wget -q -T 10 -t 1 -O - https://look.example/open/w", 0)["stdout"], "look.example", "https")
    check(sh(server, s, "wget -q -T 10 -t 1 -O - https://look.example/shut")["exit_code"] == 8, "403 is an error")


READ = {"host": "git.example", "paths": ["/git/**"], "methods": ["GET", "POST"]}
NO_PUSH = [{"host": "git.example", "paths": ["/git/**/git-receive-pack"], "action": "deny", "reason": "read only"},
           {"host": "git.example", "paths": ["/git/**/info/refs"], "query": {"service": "git-receive-pack"},
            "action": "deny", "reason": "this session may only read"}]
PUSH = """cd /tmp/clone && date +%N >> file && git -c user.name=t -c user.email=t@t.example commit -qam more &&
    git push -q origin main"""


def test_git_clone_and_push(server):
    s = make(server, policy(*NO_PUSH, READ))
    sh(server, s, "cd /tmp && git clone -q https://git.example/git/repo.git clone && cat clone/file", 0)
    before = internet.NET.sites.pushed()
    done = sh(server, s, PUSH)
    check(done["exit_code"] != 0, f"a push that the policy refuses: {done}")
    has(done["stderr"], "403", "what git says")
    equal(internet.NET.sites.pushed(), before, "commits")
    check(not [h for h in internet.NET.hits if "receive-pack" in h["path"]], "nothing of a push arrives")
    denied = recorded(server, s, lambda r: r.get("path") == "/git/repo.git/info/refs" and r["verdict"] == "deny")
    has(denied[-1]["reason"], "this session may only read", "the reason on record")
    put(server, s, policy(READ))
    sh(server, s, "cd /tmp/clone && git push -q origin main", 0)
    equal(internet.NET.sites.pushed(), before + 1, "commits after a push that is allowed")


def test_create_session_clones(server):
    """The argument repository of the MCP tool."""
    c = Client(server)
    url = "https://git.example/git/repo.git"
    got = c.call("create_session", network=["git.example/git/repo.git"], repository={"url": url, "ref": "main"})
    equal(sorted(got["repository"]), ["commit", "path"])
    equal(got["repository"]["path"], "/home/user/repo", "where it is")
    done = c.call("run", session_id=got["session_id"], command="cd repo && head -n 1 file && stat -c %U file && git remote -v && "
                  "git rev-list --count HEAD && git rev-parse HEAD")
    equal(done["exit_code"], 0, done["stderr"])
    equal(done["stdout"].splitlines()[:2], ["hello", "user"], "its files, of the user")
    has(done["stdout"], url, "the origin")
    equal(done["stdout"].splitlines()[-2:], ["1", got["repository"]["commit"]], "one commit, which the answer names")
    server.delete(got["session_id"])
    before = {s["id"] for s in server.want(200, "GET", "/v1/sessions?limit=100")["sessions"]}
    c.fails("create_session", "nosuch", "The session was ended", network=["git.example/git/repo.git"],
            repository={"url": url, "ref": "nosuch"})
    text = c.fails("create_session", "The network policy refused", "git.example", "The session was ended",
                   network=["git.example/git/other.git"], repository={"url": url})
    has(text, "403", "what git says")

    def left():
        rows = server.want(200, "GET", "/v1/sessions?limit=100")["sessions"]
        return {s["id"] for s in rows if s["state"] not in ("ending", "ended")} - before

    equal(left(), set(), "no session is left")
    link = c.open("tools/call", {"name": "create_session", "arguments": {
        "network": ["look.example/drip/**"], "repository": {"url": "https://look.example/drip/repo"}}}, token="tok")
    wait_for(lambda: internet.NET.hit("/drip/repo/info/refs"), 20, "git")
    equal(len(left()), 1, "the session while git runs")
    stream = link.getresponse()
    line = b""
    while not line.startswith(b"data:"):
        line = stream.fp.readline()
    has(line.decode(), "Cloning into 'repo'", "progress")
    stream.close()
    link.close()
    wait_for(lambda: not left(), 20, "the end of the session of a client that is gone")


def test_python_urllib(server):
    s = shared(server)
    before = "import urllib.request, urllib.error"
    for url, want in (("http://web.example/echo", 200), ("https://look.example/open/p", 200)):
        equal(both(server, s, f"urllib.request.urlopen('{url}', timeout=10).status", before=before), [want, want], url)
    got = probe(server, s, "answer()", before=before + """
def answer():
    try:
        urllib.request.urlopen('https://look.example/shut', timeout=10)
    except urllib.error.HTTPError as e:
        return [e.code, e.read().decode(), e.headers['X-Cordon-Denied']]
""")
    check(got[0] == 403 and "not allowed" in got[1] and got[2], f"{got}")


def test_node_fetch(server):
    s = shared(server)
    have(server, s, "node")
    code = ("const f=async u=>{try{const r=await fetch(u);return r.status}catch(e){return "
            "e.cause?e.cause.code:String(e)}};"
            "(async()=>console.log(JSON.stringify([await f('http://web.example/echo'),await "
            "f('https://look.example/open/n'),"
            "await f('https://look.example/shut'),await f('http://other.example/')])))()")
    done = server.run(s["id"], ["node", "-e", code])
    equal(done["stdout"].strip(), '[200,200,403,403]', f"node ({done['stderr']})")


JAVA = """import java.net.URI;
import java.net.http.*;
class Fetch {
    public static void main(String[] urls) throws Exception {
        var client = HttpClient.newHttpClient();
        for (var url : urls) {
            var got = client.send(HttpRequest.newBuilder(URI.create(url)).build(), HttpResponse.BodyHandlers.ofString());
            System.out.println(got.statusCode());
        }
    }
}
"""


def test_java(server):
    """Compiled here, since an emulated processor takes minutes for that."""
    s = shared(server)
    have(server, s, "java")
    if shutil.which("javac") is None:
        raise Skip("javac is not on this machine")
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "Fetch.java"), "w", encoding="ascii") as f:
            f.write(JAVA)
        subprocess.run(["javac", "-d", folder, f.name], check=True)
        with open(os.path.join(folder, "Fetch.class"), "rb") as f:
            server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/tmp/Fetch.class", f.read())
    done = server.run(s["id"], ["java", "-XX:TieredStopAtLevel=1", "-cp", "/tmp", "Fetch", "http://web.example/echo", "http://look.example/shut"])
    equal(done["stdout"].split(), ["200", "403"], f"java ({done['stderr'][-500:]})")


def test_static_binary(server):
    s = shared(server)
    with open(PLAIN, "rb") as f:
        server.want(201, "PUT", f"/v1/sessions/{s['id']}/files?path=/tmp/plain&mode=755", f.read())
    for user in ("root", "user"):
        done = sh(server, s, "/tmp/plain web.example 80 /echo", 0, user=user, env={"http_proxy": "http://192.0.2.9:1"})
        has(done["stdout"], "HTTP/1.1 200", "plain sockets")
        has(sh(server, s, "/tmp/plain other.example 80 /echo", user=user)["stdout"], "HTTP/1.1 403", "a name that is refused")
        equal(sh(server, s, "/tmp/plain other 80 /echo", user=user)["exit_code"], 2, "a name that does not exist")


def test_raw_bytes(server):
    s = make(server, policy({"host": "raw.example", "ports": [2222], "protocol": "tcp"},
                            {"host": "web.example", "ports": [22, 80]}))
    equal(probe(server, s, "echoed()", before="""
def echoed():
    s = connect('raw.example', 2222)
    s.sendall(b'SSH-2.0-x')
    return s.recv(99).decode()"""), "SSH-2.0-x", "bytes of any kind where the rule says so")
    got = probe(server, s, "raw('web.example', 22, 'SSH-2.0-x\\r\\n')")
    check("SSH" not in got and "!" in got or got == "", f"a host for HTTP takes no other bytes: {got!r}")


def test_explicit_proxy(server):
    s = shared(server)
    for url, options, want in (("http://web.example/echo", (), 200), ("https://look.example/open/e", (), 200),
                               ("https://web.example/echo", ("--cacert", TRUST), 200),
                               ("http://look.example/echo", ("-p",), 200),
                               ("http://other.example/", (), 403), ("https://look.example/shut", (), 403)):
        _, status, text = curl(server, s, url, "-x", "http://198.18.0.1:3128", *options)
        equal(status, want, f"{url} by the proxy ({text})")
    code, status, text = curl(server, s, "https://other.example/", "-x", "http://198.18.0.1:3128")
    check(code == 56 and "403" in text, f"CONNECT to a host outside the policy: {code} {text}")
    done = sh(server, s, "curl -sS -m 9 -o /dev/null -w '%{http_code}' http://web.example/echo", 0,
              env={"http_proxy": "http://198.18.0.1:3128"})
    equal(done["stdout"], "200", "by the variable")
    wait_for(lambda: [r for r in records(server, s, kind="request") if r.get("proxied")], 5, "the record says so")


def test_websocket(server):
    s = make(server, policy({"host": "ws.example", "paths": ["/ws"]}))
    got = probe(server, s, "talk()", before="""
def talk():
    out = []
    for encrypted in (False, True):
        s = connect('ws.example', 443 if encrypted else 80)
        if encrypted:
            s = ssl.create_default_context().wrap_socket(s, server_hostname='ws.example')
        s.sendall(b'GET /ws HTTP/1.1\\r\\nHost: ws.example\\r\\nConnection: Upgrade\\r\\nUpgrade: websocket\\r\\n'
                  b'Sec-WebSocket-Version: 13\\r\\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\\r\\n\\r\\n')
        got = b''
        while b'hello' not in got:
            got += s.recv(4096)
        s.sendall(b'\\x81\\x84abcd' + bytes(a ^ b for a, b in zip(b'ping', b'abcd')))
        out += [got.split(b' ')[1].decode(), s.recv(99)[2:].decode()]
    return out""")
    equal(got, ["101", "<ping>", "101", "<ping>"], "WebSocket")


def test_socks_upstream(server):
    s = make(server, policy({"host": "web.example"},
                            proxy={"address": "socks.example:1080", "username": "u", "password": "pw"}))
    code, status, text = curl(server, s, "http://web.example/echo")
    equal((code, status), (0, 200), text)
    equal([h["path"] for h in internet.NET.hits if h["method"] == "SOCKS"], ["u:pw@web.example:80"],
          "what the proxy was asked")


def test_resolvers_of_all_kinds(server):
    s = shared(server)
    equal(both(server, s, "[dns('web.example')[:2], dns('web.example', 28)[:2], dns('other.example')[:2], dns('other')[:2], "
               "dns('web.example', 65)[:2], dns('web.example', over='tcp')[:2], dns('web.example', "
               "server='9.9.9.9')[:2]]"),
          [[[0, 1], [0, 1], [0, 1], [3, 0], [0, 0], [0, 1], [0, 1]]] * 2, "answers")
    equal(internet.NET.asked, [], "and nothing of it reaches a resolver outside")


def test_odd_upstream_names(server):
    hosts = ("slow.example", "cut.example", "garbage.example", "alias.example", "mixed.example", "gone.example")
    s = make(server, policy(*({"host": h} for h in hosts)))
    got = {h: curl(server, s, f"http://{h}/echo", seconds=15 * level.PATIENCE)[1] for h in hosts}
    equal(got, {"slow.example": 200, "cut.example": 200, "garbage.example": 504, "alias.example": 200,
                "mixed.example": 200, "gone.example": 502}, "answers")
    check(("cut.example", 1, "tcp") in internet.NET.asked, "an answer that was cut is asked for by TCP")


def test_broken_servers(server):
    s = make(server, policy({"host": "web.example"}))
    code, _, text = curl(server, s, "http://web.example/cut")
    check(code in (18, 56), f"an answer that ends early does not look whole: {code} {text}")
    equal(curl(server, s, "http://web.example/silent")[1], 502, "no answer")
    equal(curl(server, s, "http://web.example/slow?s=1")[1], 200, "a slow one")
    equal(curl(server, s, "http://web.example:8080/echo")[1], 403, "a port outside the policy")


def test_cordon_run(server):
    """The same without a server."""
    options = level.run_options(harness.ORIGINAL)
    for words, code, status in ((["--allow", "web.example"], 0, "200"), (["--allow", "look.example"], 0, "403"),
                                ([], 6, "000"),
                                (["--allow", "web.example/open", "--egress-ca",
                                os.path.join(internet.FOLDER, "world.pem")], 0, "403")):
        done = subprocess.run([server.program, "run", *options, *words, "--", "curl", "-sS", "-m", "9", "-o", "/dev/null", "-w",
                               "%{http_code}",
                               "http://web.example/echo"], capture_output=True, text=True, timeout=30 * level.PATIENCE, check=False)
        equal((done.returncode, done.stdout), (code, status), f"cordon run {words}: {done.stderr}")
    clone, certificates = "cd /tmp && git clone -q https://git.example/git/repo.git c && cat c/file", None
    if level.TEMPLATE != "host":  # a directory has certificates of its own: the node's is taken from a session, whose template got it
        certificates = sh(server, shared(server), "cat /etc/ssl/certs/ca-certificates.crt", 0)["stdout"]
        clone = f"cat > /tmp/ca && export GIT_SSL_CAINFO=/tmp/ca && {clone}"
    done = subprocess.run([server.program, "run", *options, "--allow", "git.example/git/repo.git", "--egress-ca",
                           os.path.join(internet.FOLDER, "world.pem"), "--", "sh", "-c", clone],
                          capture_output=True, text=True, input=certificates, timeout=30 * level.PATIENCE, check=False)
    equal((done.returncode, done.stdout[:6]), (0, "hello\n"), f"git clone: {done.stderr}")


if __name__ == "__main__":
    if "PLAIN_PROGRAM" not in os.environ:
        os.environ["PLAIN_PROGRAM"] = os.path.abspath(sys.argv.pop(2))
    PLAIN = os.environ["PLAIN_PROGRAM"]
    level.ROOT = languages_root
    internet.enter()
    internet.run_tests(globals(), pool_size=2)
