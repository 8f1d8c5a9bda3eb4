#!/usr/bin/python3
"""The kernel of bash, without its server: state, what ends a shell, quoting, interrupts."""
from kernel import Kernel, check, equal, has, run


def test_output_and_state():
    with Kernel("bash") as k:
        equal(k.run("echo one; printf two").stdout, "one\ntwo")
        equal(k.run("echo err >&2").stderr, "err\n")
        k.run('x="a  b"; f() { echo "f: $1"; }; declare -A m=([k]=v); cd /usr; alias ll="echo aliased"')
        equal(k.run('echo "$x"; f y; echo ${m[k]}; pwd').stdout, "a  b\nf: y\nv\n/usr\n")
        equal(k.run("ll").stdout, "aliased\n")
        equal([k.run("echo").count, k.run("echo", silent=True).of("count"), k.run("echo").count], [6, [], 7])
        equal(k.run("cat").messages[1:], [], "there is no input")


def test_text_of_all_kinds():
    with Kernel("bash") as k:
        for text in ("é ü 😀😀", 'a"b', "a\\b", "\\\\", '\\"', "$HOME `x` !", "a\tb", "\\ud83d\\ude00", "%s %d", '""', "{}", "\x7f"):
            equal(k.run(f"cat <<'E'\n{text}\nE").stdout, text + "\n")
        code = "\n".join(f'v{i}="a\\\\b"; : "$v{i}"' for i in range(5000))
        equal(k.run(code + "\necho $v7").stdout, "a\\b\n", "a long cell")


def test_status_is_an_error():
    with Kernel("bash") as k:
        e = k.run("false").error
        equal((e["name"], e["value"]), ("ExitStatus", "1"))
        equal(k.run("echo $?").stdout, "1\n", "the next cell sees it")
        r = k.run("echo ok\nnope")
        equal((r.error["value"], r.stdout), ("127", "ok\n"))
        has(r.stderr, "line 2: nope: command not found")
        r = k.run("if")
        equal(r.error["value"], "2")
        has(r.stderr, "syntax error")


def test_what_ends_a_shell_keeps_the_context():
    with Kernel("bash") as k:
        k.run('x="a\nb"; f() { echo "f: $x"; }; declare -A m=(["b c"]=1); arr=(1 "2 3"); readonly ro=1; export e=2; cd /usr')
        for code, status in (
            ("exit 3", "3"),
            ("f() { f2; }; f2() { exit 4; }; f", "4"),
            ("set -e; false; echo never", "1"),
            ("set -u; echo $undefined; echo never", "1"),
            ("set +u; echo ${undefined:?gone}", "1"),
            ("exit 0", None),
        ):
            r = k.run(code)
            equal((r.error and r.error["value"], "never" in r.stdout), (status, False), code)
            equal(k.run('set +u; echo "$x${m[b c]}${arr[1]}$ro" $(sh -c "echo \\$e"); pwd').stdout, "a\nb12 31 2\n/usr\n", code)
        r = k.run("trap 'echo bye' EXIT; exit 2")
        equal((r.stdout, r.error["value"]), ("bye\n", "2"))
        equal(k.run("exit 1").stdout, "", "a trap holds once")
        equal(k.run("(exit 5); echo $?").stdout, "5\n")


def test_options_of_cells_do_not_touch_the_kernel():
    with Kernel("bash") as k:
        k.run("set -f; IFS=,; printf() { echo mine; }; read() { return 1; }")
        equal(k.run("y=a,b; echo $y *").stdout, "a b *\n")
        equal(k.run("set -x; echo traced").stderr, "++ echo traced\n")
        equal(k.run("echo quiet").stderr, "")
        equal(k.run("set -e; true").error, None)
        equal(k.run("echo $-").stdout.count("e"), 1, "options are kept")


def test_environment():
    with Kernel("bash", env={"KEPT": "old"}) as k:
        k.send(op="env", env={"SESSION": "s"})
        r = k.run('echo "$SESSION|$A|$B|$KEPT"', env={"A": "it's \"q\" $x \\n", "B": "", "KEPT": "new"})
        equal(r.stdout, 's|it\'s "q" $x \\n||new\n')
        equal(k.run('echo "${A-unset}|${B-unset}|$KEPT|$(printenv SESSION)"').stdout, "unset|unset|old|s\n")
        k.run("exit 1", env={"A": "1"})
        equal(k.run('echo "${A-unset}"').stdout, "unset\n", "after a cell that ended its shell")


def test_interrupts():
    with Kernel("bash") as k:
        k.run("kept=state; f() { echo $kept; }")
        for code in ("while :; do :; done", "sleep 100", "(sleep 100)", "for i in 1 2; do sleep 50; done", "sleep 60 & wait", "f2() { while :; do :; done; }; f2"):
            k.begin(f"echo begun; {code}; echo never")
            k.link.settimeout(10)
            while not any(m["text"] == "begun\n" for m in k.strays):
                k.drain()
            r = k.interrupted()
            equal((r.error["name"], "never" in r.stdout), ("Interrupted", False), code)
            equal(k.run("f").stdout, "state\n", code)
        k.interrupt()  # idle
        equal(k.run("f").stdout, "state\n")


def test_background_jobs_go_on():
    with Kernel("bash") as k:
        k.run("sleep 60 & job=$!")
        k.run("exit 1")
        equal(k.run("kill -0 $job && kill $job").error, None)
        r = k.run("sleep 0.1 && echo late & echo now; wait; echo waited")
        equal(r.stdout, "now\nlate\nwaited\n")


def test_dies_with_its_server():
    with Kernel("bash") as k:
        k.link.shutdown(2)
        check(k.process.wait(10) is not None, "it lives")


run(globals())
