/* Goal: a body is read as the contract says, and every mistake names the member it is in. */
#include <jansson.h>

#include "lib/http/byte_range.h"
#include "lib/wire/diff_record.h"
#include "front/rest/cursor.h"
#include "front/web/spec_exec.h"
#include "front/web/spec_session.h"
#include "front/rest/spec_template.h"
#include "daemon/template/templates.h"

#include "support.h"

static struct err e;

static int session(const char *body, struct spec_session *ret)
{
	memset(&e, 0, sizeof(e));
	return spec_session_read(body, strlen(body), ret, &e);
}

static int exec(const char *body, struct spec_exec *ret)
{
	memset(&e, 0, sizeof(e));
	return spec_exec_read(body, strlen(body), ret, &e);
}

static int template(const char *body, struct spec_template *ret)
{
	memset(&e, 0, sizeof(e));
	return spec_template_read(body, strlen(body), "/var/templates/", ret, &e);
}

static void template_whole(void)
{
	struct spec_template s;

	CHECK(template("{\"name\":\"x\",\"level\":\"container\",\"root\":{\"kind\":\"layers\","
		       "\"layers\":[\"/var/templates//a/\",\"b\",\"/var/templatesc\"]},"
		       "\"mounts\":[{\"source\":\"/srv/a\",\"target\":\"/a\",\"mode\":\"rw\"}],"
		       "\"env\":{\"A\":\"1\"},\"user\":\"root\",\"workdir\":\"/w\"}",
		       &s) == 0);
	CHECK_STR(s.row.name, "x");
	CHECK(s.row.kind == TEMPLATE_LAYERS && s.row.level == CELL_CONTAINER);
	CHECK_STR(s.row.layers, "a\nb\n/var/templatesc");
	CHECK_STR(s.row.mounts, "/srv/a\t/a\trw\n");
	CHECK(s.row.env_len == 4 && memcmp(s.row.env, "A=1", 4) == 0);
	CHECK_STR(s.row.user, "root");
	CHECK_STR(s.row.workdir, "/w");
	spec_template_release(&s);
}

static void template_mistakes(void)
{
	static const struct {
		const char *body, *part;
	} cases[] = {
		{ "{\"name\":\"x\"}", "root" },
		{ "{\"name\":\"x\",\"root\":{}}", "root.layers" },
		{ "{\"name\":\"x\",\"root\":{\"layers\":[]}}", "root.layers" },
		{ "{\"name\":\"x\",\"root\":{\"layers\":[1]}}", "root.layers" },
		{ "{\"name\":\"x\",\"root\":{\"layers\":[\"a\\nb\"]}}", "root.layers" },
		{ "{\"name\":\"x\",\"root\":{\"kind\":\"x\",\"layers\":[\"a\"]}}", "root.kind" },
		{ "{\"name\":\"x\",\"root\":{\"path\":\"/\",\"layers\":[\"a\"]}}", "root.path" },
		{ "{\"name\":\"x\",\"level\":\"vm\",\"root\":{\"layers\":[\"a\"]}}", "level" },
		{ "{\"name\":\"x\",\"tenant\":\"y\",\"root\":{\"layers\":[\"a\"]}}", "tenant" },
		{ "{\"name\":\"x\",\"mounts\":[{\"source\":\"a\",\"target\":\"/a\"}],"
		  "\"root\":{\"layers\":[\"a\"]}}",
		  "source" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct spec_template s;

		CHECK_CASE(cases[i].body, template(cases[i].body, &s) < 0 && e.code == ERR_INVALID);
		CHECK_HAS(cases[i].body, e.msg, cases[i].part);
		spec_template_release(&s);
	}
}

static void session_defaults(void)
{
	static const char *const bodies[] = { "", "{}", "{\"template\":null,\"limits\":null}" };
	struct spec_session s;

	for (size_t i = 0; i < COUNT(bodies); i++) {
		CHECK(session(bodies[i], &s) == 0);
		CHECK(s.spec.template == NULL && s.spec.profile == -1 && s.spec.env_len == 0);
		CHECK(!s.spec.timeout_given && !s.spec.idle_given && s.spec.nmounts == 0);
		CHECK(s.spec.metadata == NULL && s.spec.writable == NULL);
		spec_session_release(&s);
	}
}

static void session_whole(void)
{
	struct spec_session s;
	struct session_spec *p = &s.spec;

	CHECK(session("{\"template\":\"host\",\"profile\":\"locked\",\"level\":\"container\","
		      "\"limits\":{\"memory\":\"512M\",\"cpus\":1.5,\"pids\":64,\"disk\":1048576,"
		      "\"inodes\":1000,\"nofile\":256},\"env\":{\"A\":\"1\",\"_b2\":\"x=y\"},"
		      "\"mounts\":[{\"source\":\"/srv/a\",\"target\":\"/mnt/a\",\"mode\":\"rw\"},"
		      "{\"source\":\"/srv/b\",\"target\":\"/mnt/b\"}],"
		      "\"metadata\":{\"who\":\"\\u00e9\"},\"timeout\":\"10m\",\"idle_timeout\":0,"
		      "\"on_timeout\":\"pause\",\"on_idle\":\"kill\","
		      "\"rules\":{\"writable\":[\"/home/user\",\"/tmp\"]}}",
		      &s) == 0);
	CHECK_STR(p->template, "host");
	CHECK(p->profile == CELL_LOCKED);
	CHECK(p->limits.memory_bytes == 512U << 20 && p->limits.cpu_millis == 1500);
	CHECK(p->limits.pids == 64 && p->limits.disk_bytes == 1048576);
	CHECK(p->limits.inodes == 1000 && p->limits.nofile == 256);
	CHECK(p->env_len == 4 + 8 && memcmp(p->env, "A=1\0_b2=x=y", 12) == 0);
	CHECK(p->nmounts == 2 && p->mounts[0].writable && !p->mounts[1].writable);
	CHECK_STR(p->mounts[1].target, "/mnt/b");
	CHECK_STR(p->metadata, "{\"who\":\"\xc3\xa9\"}");
	CHECK(p->timeout_given && p->timeout_ms == 600000 && p->idle_given && p->idle_ms == 0);
	CHECK(p->on_timeout == SESSION_PAUSE && p->on_idle == SESSION_KILL);
	CHECK_STR(p->writable, "/home/user:/tmp");
	CHECK(p->exportable == NULL);
	spec_session_release(&s);
}

/* The names of answers are taken, too, and their numbers are exact. */
static void session_as_it_was_read(void)
{
	struct spec_session s;
	struct session_spec *p = &s.spec;

	CHECK(session("{\"limits\":{\"memory_bytes\":536870912,\"cpu_millis\":1500,\"pids\":64,"
		      "\"disk_bytes\":1048577,\"inodes\":1000,\"nofile\":256,"
		      "\"disk_read_bps\":0,\"disk_write_bps\":0},\"timeout_ms\":1,"
		      "\"idle_timeout_ms\":0,\"keep_ms\":86400001}",
		      &s) == 0);
	CHECK(p->limits.memory_bytes == 512U << 20 && p->limits.cpu_millis == 1500);
	CHECK(p->limits.disk_bytes == 1048577);
	CHECK(p->timeout_given && p->timeout_ms == 1 && p->idle_given && p->idle_ms == 0);
	CHECK(p->keep_ms == 86400001);
	spec_session_release(&s);
}

static void session_mistakes(void)
{
	static const struct {
		const char *body, *want;
	} cases[] = {
		{ "{", "not JSON" },
		{ "[]", "not a JSON object" },
		{ "{}x", "not JSON" },
		{ "{\"a\":1,\"a\":2}", "duplicate" },
		{ "{\"tmplate\":\"host\"}", "tmplate: unknown member" },
		{ "{\"limits\":{\"mem\":1}}",
		  "limits.mem: unknown member; did you mean limits.memory?" },
		{ "{\"tmplate\":\"host\"}", "unknown member; did you mean template?" },
		{ "{\"memory\":1}", "memory: unknown member; did you mean limits.memory?" },
		{ "{\"memroy_bytes\":1}", "unknown member; did you mean limits.memory_bytes?" },
		{ "{\"image\":\"x\"}", "image: unknown member; did you mean template?" },
		{ "{\"extends\":[]}", "extends: unknown member; did you mean network.extends?" },
		{ "{\"volumes\":[{\"target\":\"/v\"}]}",
		  "volumes[0].target: unknown member; did you mean volumes[0].path?" },
		{ "{\"qqqqqq\":1}", "qqqqqq: unknown member" },
		{ "{\"limits\":{\"memory\":1,\"memory_bytes\":1}}",
		  "limits.memory_bytes: is given beside its other form" },
		{ "{\"timeout_ms\":1.5}", "timeout_ms: must be a whole number" },
		{ "{\"timeout_ms\":\"1s\"}", "timeout_ms: must be a whole number" },
		{ "{\"timeout_ms\":-1}", "timeout_ms: must be a whole number" },
		{ "{\"timeout_ms\":9007199254740993}", "timeout_ms: must be a whole number" },
		{ "{\"limits\":{\"memory\":\"lots\"}}", "limits.memory: " },
		{ "{\"limits\":{\"memory\":-1}}", "limits.memory: " },
		{ "{\"limits\":{\"memory\":1e300}}", "limits.memory: " },
		{ "{\"limits\":{\"pids\":1.5}}", "limits.pids: must be a whole number" },
		{ "{\"limits\":[]}", "limits: must be an object" },
		{ "{\"template\":1}", "template: must be a string" },
		{ "{\"template\":\"a\\u0000b\"}", "not JSON" },
		{ "{\"template\":\"\xff\"}", "not JSON" },
		{ "{\"profile\":\"none\"}", "profile: must be one of standard locked" },
		{ "{\"env\":{\"1A\":\"x\"}}", "env: a name" },
		{ "{\"env\":{\"A=B\":\"x\"}}", "env: a name" },
		{ "{\"env\":{\"\":\"x\"}}", "env: a name" },
		{ "{\"env\":{\"A\":1}}", "env: a value" },
		{ "{\"mounts\":[1]}", "mounts: must be an array of objects" },
		{ "{\"mounts\":[{\"source\":\"srv\",\"target\":\"/a\"}]}", "mounts.source: " },
		{ "{\"mounts\":[{\"source\":\"/a\\tb\",\"target\":\"/a\"}]}", "mounts.source: " },
		{ "{\"mounts\":[{\"source\":\"/a\",\"target\":\"/a/../b\"}]}", "mounts.target: " },
		{ "{\"mounts\":[{\"source\":\"/a\"}]}", "mounts.target: " },
		{ "{\"metadata\":{\"a\":1}}", "metadata: " },
		{ "{\"timeout\":\"soon\"}", "timeout: " },
		{ "{\"timeout\":true}", "timeout: " },
		{ "{\"on_idle\":\"sleep\"}", "on_idle: must be one of kill pause" },
		{ "{\"rules\":{\"writable\":[\"tmp\"]}}", "rules.writable: " },
		{ "{\"rules\":{\"writable\":[\"/a:b\"]}}", "rules.writable: " },
		{ "{\"rules\":{\"writable\":[]}}", "rules.writable: must not be empty" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct spec_session s;

		CHECK(session(cases[i].body, &s) < 0);
		spec_session_release(&s);
		if (e.code != ERR_INVALID || strstr(e.msg, cases[i].want) == NULL) {
			printf("# %s: '%s'\n", cases[i].body, e.msg);
			CHECK(false);
		}
	}
}

static void depth_is_bounded(void)
{
	char deep[5000];
	struct spec_session s;

	memset(deep, '[', sizeof(deep));
	memset(&e, 0, sizeof(e));
	CHECK(spec_session_read(deep, sizeof(deep), &s, &e) < 0);
	spec_session_release(&s);
	CHECK(strstr(e.msg, "too deep") != NULL);
	/* Brackets in strings do not count. */
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "{\"metadata\":{\"a\\\"\":\"", 20);
	memcpy(deep + sizeof(deep) - 3, "\"}}", 3);
	CHECK(spec_session_read(deep, sizeof(deep), &s, &e) == 0);
	spec_session_release(&s);
}

static void exec_command(void)
{
	struct spec_exec s;

	CHECK(exec("{\"command\":\"echo hi\",\"env\":{\"K\":\"v\"}}", &s) == 0);
	CHECK(s.spec.argc == 3 && s.spec.envc == 1);
	CHECK(s.spec.strings_len == 3 + 3 + 8 + 4);
	CHECK(memcmp(s.spec.strings, "sh\0-c\0echo hi\0K=v", 18) == 0);
	CHECK_STR(s.spec.text, "echo hi");
	CHECK(!s.spec.stdin_open && !s.spec.tty && !s.spec.keep_text && !s.has_input);
	spec_exec_release(&s);
}

static void exec_whole(void)
{
	struct spec_exec s;

	CHECK(exec("{\"argv\":[\"ls\",\"\",\"-l\"],\"cwd\":\"/"
		   "tmp\",\"user\":\"root\",\"timeout\":1.5,"
		   "\"stdin_base64\":\"AAEC\",\"tty\":{\"rows\":24,\"cols\":80},\"output_limit\":"
		   "\"1M\","
		   "\"record\":\"text\",\"background\":true}",
		   &s) == 0);
	CHECK(s.spec.argc == 3 && memcmp(s.spec.strings, "ls\0\0-l", 7) == 0);
	CHECK_STR(s.spec.text, "ls  -l");
	CHECK_STR(s.spec.cwd, "/tmp");
	CHECK_STR(s.spec.user, "root");
	CHECK(s.spec.timeout_ms == 1500 && s.spec.output_limit == 1U << 20);
	CHECK(s.has_input && s.input_len == 3 && memcmp(s.input, "\0\1\2", 3) == 0);
	CHECK(s.spec.tty && s.spec.rows == 24 && s.spec.cols == 80 && s.spec.stdin_open);
	CHECK(s.spec.keep_text && s.spec.background);
	spec_exec_release(&s);
}

static void exec_mistakes(void)
{
	static const struct {
		const char *body, *want;
	} cases[] = {
		{ "", "command: give one of command, argv and code" },
		{ "{\"command\":\"a\",\"argv\":[\"a\"]}", "command: give one of" },
		{ "{\"command\":\"\"}", "command: is empty" },
		{ "{\"argv\":[]}", "argv: must begin with a program" },
		{ "{\"argv\":[\"\"]}", "argv: must begin with a program" },
		{ "{\"argv\":[\"a\",1]}", "argv: must be an array of strings" },
		{ "{\"argv\":\"ls\"}", "argv: must be an array" },
		{ "{\"command\":\"a\",\"stdin\":\"x\",\"stdin_stream\":true}", "stdin: give one" },
		{ "{\"command\":\"a\",\"stdin_base64\":\"A\"}", "stdin_base64: is not base64" },
		{ "{\"command\":\"a\",\"tty\":{\"rows\":1}}", "tty.cols: is missing" },
		{ "{\"command\":\"a\",\"tty\":{\"rows\":0,\"cols\":1}}", "tty.rows: " },
		{ "{\"command\":\"a\",\"tty\":true}", "tty: must be an object" },
		{ "{\"command\":\"a\",\"record\":\"all\"}", "record: must be one of hash text" },
		{ "{\"command\":\"a\",\"wait\":true}",
		  "wait: unknown member; it is a parameter of the URL (?wait=)" },
		{ "{\"command\":\"a\",\"workdir\":\"/\"}", "did you mean cwd?" },
		{ "{\"command\":\"a\",\"rows\":1}", "did you mean tty.rows?" },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct spec_exec s;

		CHECK(exec(cases[i].body, &s) < 0);
		spec_exec_release(&s);
		if (e.code != ERR_INVALID || strstr(e.msg, cases[i].want) == NULL) {
			printf("# %s: '%s'\n", cases[i].body, e.msg);
			CHECK(false);
		}
	}
}

static int signal_of(const char *body)
{
	int sig = -1;

	return spec_exec_signal(body, strlen(body), &sig, &e) < 0 ? -1 : sig;
}

static void orders(void)
{
	struct spec_exec_message m;
	uint16_t rows, cols;

	CHECK(signal_of("{\"signal\":\"TERM\"}") == 15);
	CHECK(signal_of("{\"signal\":\"SIGINT\"}") == 2);
	CHECK(signal_of("{\"signal\":9}") == 9);
	CHECK(signal_of("{\"signal\":0}") == -1 && signal_of("{\"signal\":65}") == -1);
	CHECK(signal_of("{\"signal\":\"term\"}") == -1 && signal_of("{}") == -1);
	CHECK(spec_exec_size("{\"rows\":2,\"cols\":3}", 19, &rows, &cols, &e) == 0);
	CHECK(rows == 2 && cols == 3);
	CHECK(spec_exec_message("{\"type\":\"eof\"}", 14, &m, &e) == 0);
	CHECK(m.order == SPEC_EXEC_EOF);
	CHECK(spec_exec_message("{\"type\":\"signal\",\"signal\":1}", 28, &m, &e) == 0);
	CHECK(m.order == SPEC_EXEC_SIGNAL && m.signal == 1);
	CHECK(spec_exec_message("{\"type\":\"eof\",\"rows\":1}", 23, &m, &e) < 0);
	CHECK(spec_exec_message("{}", 2, &m, &e) < 0);
}

static void ranges(void)
{
	static const struct {
		const char *value;
		bool ok, from_end;
		uint64_t first, last;
	} cases[] = {
		{ "bytes=0-9", true, false, 0, 9 },
		{ "bytes=5-", true, false, 5, UINT64_MAX },
		{ "Bytes=-7", true, true, 7, 0 },
		{ "bytes=", false, false, 0, 0 },
		{ "bytes=-", false, false, 0, 0 },
		{ "bytes=9-5", false, false, 0, 0 },
		{ "bytes=0-1,3-4", false, false, 0, 0 },
		{ "bytes=0-9 ", false, false, 0, 0 },
		{ "lines=0-9", false, false, 0, 0 },
		{ "bytes=a-9", false, false, 0, 0 },
		{ "bytes=99999999999999999999-", false, false, 0, 0 },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		struct http1_span v = { cases[i].value, strlen(cases[i].value) };
		struct byte_range g = { 0 };

		CHECK(byte_range_parse(v, &g) == cases[i].ok);
		if (!cases[i].ok)
			continue;
		CHECK(g.from_end == cases[i].from_end && g.first == cases[i].first);
		CHECK(g.from_end || g.last == cases[i].last);
	}
}

static void changes(void)
{
	static const char *const bad[] = { "",
					   "A",
					   "X\t0\t0\t/a",
					   "A\t8\t0\t/a",
					   "A\t644\t\t/a",
					   "A\t644\t1\ta",
					   "A\t644\t1",
					   "A\t644\t1\t2",
					   "A\t644\t1\t2\t3\t/a",
					   "A\t644\t1\t99999999999999999999\t/a",
					   "A\t644\t99999999999999999999\t/a" };
	struct diff_record c;

	CHECK(diff_record_parse("C\t100644\t12\t/etc/a\tb", &c, &e) == 0);
	CHECK(c.kind == 'C' && c.mode == 0100644 && c.size == 12);
	CHECK_STR(c.path, "/etc/a\tb");
	CHECK(c.changed_ms == 0);
	CHECK(diff_record_parse("D\t644\t1\t1700000000123\t/a", &c, &e) == 0);
	CHECK(c.changed_ms == 1700000000123 && c.size == 1);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(diff_record_parse(bad[i], &c, &e) < 0);
}

static void cursors(void)
{
	static const char *const bad[] = {
		"x", "1", "ff", "3120", "2061", "31202e2e2f", "31206100"
	};
	char text[256], id[STORE_ID_MAX];
	struct json j;
	uint64_t ms;

	json_init(&j, text, sizeof(text));
	cursor_write(&j, NULL, 1700000000123, "i0123456789abcdef");
	text[j.len - 1] = '\0'; /* the quote */
	CHECK(cursor_parse(text + 1, &ms, id, &e) == 0);
	CHECK(ms == 1700000000123);
	CHECK_STR(id, "i0123456789abcdef");
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(cursor_parse(bad[i], &ms, id, &e) < 0);
}

static void places(void)
{
	static const char *const bad[] = { "",	      "1",	   "1-",
					   "1-1.2",   "1-1.2.3.4", "2-1.2.3",
					   "1-1.2.x", "1-01.2.3",  "1-1.2.3 ",
					   "1-A.2.3", "1-1..3",	   "1-8000000000000000.1.1",
					   "1.1.2.3" };
	const uint64_t want[] = { 0, INT64_MAX, 0x1f };
	char text[CURSOR_PLACES_TEXT];
	uint64_t got[3];

	cursor_write_places(want, 3, text);
	CHECK_STR(text, "1-0.7fffffffffffffff.1f");
	CHECK(cursor_parse_places(text, got, 3, &e) == 0);
	CHECK(memcmp(got, want, sizeof(got)) == 0);
	CHECK(cursor_parse_places("0", got, 3, &e) == 0 && got[0] + got[1] + got[2] == 0);
	for (size_t i = 0; i < COUNT(bad); i++)
		CHECK(cursor_parse_places(bad[i], got, 3, &e) < 0);
}

TEST_MAIN({ "all of a template", template_whole }, { "mistakes in a template", template_mistakes },
	  { "the defaults of a session", session_defaults }, { "all of a session", session_whole },
	  { "a session as it was read", session_as_it_was_read },
	  { "mistakes in a session", session_mistakes }, { "depth is bounded", depth_is_bounded },
	  { "places in several lists", places }, { "a command line", exec_command },
	  { "all of an execution", exec_whole }, { "mistakes in an execution", exec_mistakes },
	  { "signals, sizes, messages", orders }, { "ranges", ranges },
	  { "records of changes", changes }, { "cursors", cursors })
