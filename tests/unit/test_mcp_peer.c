/* Goal: the client's side of an MCP server (src/lib/mcp/client/peer.h) finds the era, lists tools,
 * and ends every call exactly once, whatever the server writes. The test is the server. */
#include "lib/mcp/client/peer.h"

#include "lib/base/clock.h"
#include "lib/mcp/client/join.h"
#include "support.h"

struct caller {
	struct peer_call call;
	unsigned ends, progress;
	enum peer_end end;
	char text[300];
};

static unsigned listed, failed;

static void on_tools(struct peer *p)
{
	listed++;
}

static void on_failed(struct peer *p)
{
	failed++;
}

static size_t room = SIZE_MAX; /* for what waits */

static bool may_wait(struct peer *p, size_t n)
{
	return n <= room;
}

static const struct peer_events events = { .on_tools = on_tools,
					   .on_failed = on_failed,
					   .may_wait = may_wait };

static void on_done(struct peer_call *c, const struct peer_answer *a)
{
	struct caller *m = c->arg;

	m->ends++;
	m->end = a->end;
	if (a->end == PEER_RESULT)
		(void)snprintf(m->text, sizeof(m->text), "%.*s", (int)a->result.n, a->result.p);
	else
		(void)snprintf(m->text, sizeof(m->text), "%s", a->message);
}

static void on_progress(struct peer_call *c, struct json_value params)
{
	((struct caller *)c->arg)->progress++;
}

static void say(struct peer *p, const char *line)
{
	peer_feed(p, line, strlen(line));
	peer_feed(p, "\n", 1);
}

/* The id of the last request that was sent, whose method must be this; forgets all that was sent.
 */
static unsigned long asked(struct peer *p, const char *method)
{
	const char *text = buf_text(&p->out), *at = text, *id = NULL;

	while ((at = strstr(at, "\"id\":")) != NULL) {
		id = at + 5;
		at = id;
	}
	CHECK(id != NULL && strstr(id, method) != NULL);
	CHECK(text[p->out.len - 1] == '\n');
	unsigned long n = strtoul(id, NULL, 10);

	buf_clear(&p->out);
	return n;
}

static void answer(struct peer *p, unsigned long id, const char *result)
{
	char line[8192];

	(void)snprintf(line, sizeof(line), "{\"jsonrpc\":\"2.0\",\"id\":%lu,%s}", id, result);
	say(p, line);
}

#define INITIALIZED                                                                       \
	"\"result\":{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{\"tools\":{}}," \
	"\"serverInfo\":{\"name\":\"s\"}}"
#define TOOLS "\"result\":{\"tools\":[{\"name\":\"a\",\"description\":\"d\",\"inputSchema\":{}}]}"

static void begin(struct peer *p)
{
	listed = failed = 0;
	peer_init(p, &events, NULL);
	p->name = "s";
	peer_begin(p);
}

static void make_ready(struct peer *p)
{
	begin(p);
	answer(p, asked(p, "initialize"), INITIALIZED);
	answer(p, asked(p, "tools/list"), TOOLS);
	CHECK(p->state == PEER_READY && listed == 1 && p->tools.n == 1);
}

static void call(struct peer *p, struct caller *m)
{
	struct err e;

	*m = (struct caller){ .call = { .on_done = on_done, .on_progress = on_progress } };
	m->call.arg = m;
	CHECK(peer_call(p, &m->call, "a", (struct json_value){ 0 }, 60000, &e) == 0);
}

static void older_servers_are_initialized(void)
{
	struct peer p;

	make_ready(&p);
	CHECK(p.era == PEER_LEGACY);
	CHECK_STR(p.version, "2025-11-25");
	CHECK_STR(p.tools.tools[0].rest, "\"description\":\"d\",\"inputSchema\":{}");
	peer_release(&p);
}

static void cover(struct peer *p, char *text)
{
	char *at = strstr(text, "value");

	if (at != NULL)
		memcpy(at, "*****", 5);
}

/* It is shown with the session. */
static void the_version_is_masked(void)
{
	static const struct peer_events with_words = { on_tools, on_failed, .on_words = cover };
	struct peer p;

	begin(&p);
	p.events = &with_words;
	answer(&p, asked(&p, "initialize"),
	       "\"result\":{\"protocolVersion\":\"a value\",\"capabilities\":{}}");
	CHECK_STR(p.version, "a *****");
	peer_release(&p);
}

static void newer_servers_are_discovered(void)
{
	struct peer p;

	begin(&p);
	answer(&p, asked(&p, "initialize"), "\"error\":{\"code\":-32601,\"message\":\"no\"}");
	answer(&p, asked(&p, "server/discover"),
	       "\"result\":{\"supportedVersions\":[\"2026-07-28\"],\"capabilities\":{\"tools\":{}}"
	       "}");
	CHECK(strstr(buf_text(&p.out), "io.modelcontextprotocol/protocolVersion") != NULL);
	answer(&p, asked(&p, "tools/list"), TOOLS);
	CHECK(p.state == PEER_READY && p.era == PEER_MODERN);
	peer_release(&p);
}

static void a_server_that_refuses_both_fails(void)
{
	struct peer p;

	begin(&p);
	answer(&p, asked(&p, "initialize"), "\"error\":{\"code\":1,\"message\":\"x\"}");
	answer(&p, asked(&p, "discover"), "\"error\":{\"code\":1,\"message\":\"a\\u001b[2Jb\"}");
	CHECK(p.state == PEER_FAILED && failed == 1);
	CHECK(strchr(p.failure, 033) == NULL && strstr(p.failure, "?[2Jb") != NULL);
	peer_release(&p);
}

static void calls_end_once(void)
{
	struct caller one, two, three;
	unsigned long first, second;
	struct peer p;

	make_ready(&p);
	call(&p, &one);
	first = asked(&p, "tools/call");
	call(&p, &two);
	second = asked(&p, "tools/call");
	call(&p, &three);
	answer(&p, second, "\"result\":{\"content\":[]}");
	answer(&p, second, "\"result\":{\"content\":[1]}"); /* twice */
	answer(&p, 4711, "\"result\":{}");		    /* nobody asked */
	CHECK(two.ends == 1 && two.end == PEER_RESULT && one.ends == 0);
	CHECK_STR(two.text, "{\"content\":[]}");
	answer(&p, first, "\"error\":{\"code\":-32000,\"message\":\"why\"}");
	CHECK(one.ends == 1 && one.end == PEER_ERROR);
	peer_lost(&p, "gone");
	CHECK(three.ends == 1 && three.end == PEER_LOST && p.ignored == 2);
	CHECK_STR(three.text, "gone");
	peer_release(&p);
}

static void a_cancelled_call_never_ends(void)
{
	struct caller m;
	struct peer p;
	unsigned long id;

	make_ready(&p);
	call(&p, &m);
	id = asked(&p, "tools/call");
	peer_cancel(&m.call);
	peer_cancel(&m.call);
	CHECK(strstr(buf_text(&p.out), "notifications/cancelled") != NULL);
	answer(&p, id, "\"result\":{}");
	peer_lost(&p, "gone");
	CHECK(m.ends == 0);
	peer_release(&p);
}

static void calls_expire(void)
{
	struct caller m;
	struct peer p;
	struct err e;

	make_ready(&p);
	m = (struct caller){ .call = { .on_done = on_done, .arg = &m } };
	CHECK(peer_call(&p, &m.call, "a", (struct json_value){ 0 }, 0, &e) == 0);
	peer_tick(&p);
	CHECK(m.ends == 1 && m.end == PEER_LOST);
	peer_release(&p);
}

static void garbage_is_ignored(void)
{
	struct caller m;
	struct peer p;
	unsigned long id;

	make_ready(&p);
	call(&p, &m);
	id = asked(&p, "tools/call");
	say(&p, "hello");
	say(&p, "");
	say(&p, "[]");
	say(&p, "{\"id\":null,\"result\":{}}");
	say(&p, "{\"id\":-1,\"result\":{}}");
	say(&p, "{\"id\":\"1\",\"result\":{}}");
	peer_feed(&p, "\xff\xfe\0\n", 4);
	CHECK(m.ends == 0 && p.ignored == 6);
	answer(&p, id, "\"result\":[]");
	CHECK(m.ends == 1 && m.end == PEER_LOST);
	peer_release(&p);
}

static void messages_come_in_pieces(void)
{
	char line[200];
	struct caller m;
	struct peer p;

	make_ready(&p);
	call(&p, &m);
	(void)snprintf(line, sizeof(line), "{\"id\":%lu,\"result\":{\"a\":1}}\n",
		       asked(&p, "tools/call"));
	for (size_t i = 0; line[i] != '\0'; i++)
		peer_feed(&p, line + i, 1);
	CHECK(m.ends == 1);
	CHECK_STR(m.text, "{\"a\":1}");
	peer_release(&p);
}

/* With the id in front, and with the id at the end; the walk over such values would take long. */
static void an_answer_of_many_values_ends_its_call(void)
{
	struct buf line = BUF_INIT(1U << 20);
	struct caller m;
	struct peer p;

	make_ready(&p);
	p.values_max = 1000;
	for (int last = 0; last < 2; last++) {
		unsigned long id;

		call(&p, &m);
		id = asked(&p, "tools/call");
		buf_clear(&line);
		buf_put_text(&line, "{\"jsonrpc\":\"2.0\",");
		if (!last)
			buf_printf(&line, "\"id\":%lu,", id);
		buf_put_text(&line, "\"result\":{\"content\":[0");
		for (int i = 0; i < 1000; i++)
			buf_put_text(&line, ",0");
		buf_put_text(&line, "]}");
		if (last)
			buf_printf(&line, ",\"id\":%lu", id);
		buf_put_text(&line, "}");
		say(&p, buf_text(&line));
		CHECK(m.ends == 1 && m.end == PEER_LOST && strstr(m.text, "1000 values") != NULL);
	}
	buf_release(&line);
	peer_release(&p);
}

/* Messages that were not asked for are counted with their bytes, and forgotten in time. */
static void noise_is_counted(void)
{
	static const char late[] = "{\"id\":4711,\"result\":{}}", note[] = "{\"method\":\"x\"}",
			  ping[] = "{\"method\":\"ping\",\"id\":1}",
			  changed[] = "{\"method\":\"notifications/tools/list_changed\"}";
	struct peer p;

	make_ready(&p);
	say(&p, changed);
	CHECK(p.noise == 0 && p.noise_bytes == 0);
	for (int i = 0; i < 32; i++) {
		say(&p, late);
		say(&p, note);
		say(&p, ping);
		say(&p, "no JSON");
	}
	CHECK(p.noise == 128 && p.ignored == 128);
	CHECK(p.noise_bytes == 32 * (strlen(late) + strlen(note) + strlen(ping) + 7));
	peer_tick(&p);
	CHECK(p.noise == 120 && p.ignored == 128);
	peer_lost(&p, "gone");
	peer_begin(&p);
	CHECK(p.noise == 0 && p.noise_bytes == 0);
	peer_release(&p);
}

/* With the id in front, and with the id at the end. */
static void a_long_answer_ends_its_call(void)
{
	static char filler[PEER_LINE_MAX];
	char edge[100];
	struct caller m;
	struct peer p;

	make_ready(&p);
	memset(filler, 'x', sizeof(filler));
	call(&p, &m);
	(void)snprintf(edge, sizeof(edge), "{\"id\":%lu,\"result\":\"", asked(&p, "tools/call"));
	peer_feed(&p, edge, strlen(edge));
	peer_feed(&p, filler, sizeof(filler));
	say(&p, "\"}");
	CHECK(m.ends == 1 && m.end == PEER_LOST && strstr(m.text, "4 MiB") != NULL);
	call(&p, &m);
	(void)snprintf(edge, sizeof(edge), "\",\"id\":%lu}", asked(&p, "tools/call"));
	peer_feed(&p, "{\"result\":\"", 11);
	peer_feed(&p, filler, sizeof(filler));
	say(&p, edge);
	CHECK(m.ends == 1 && m.end == PEER_LOST && p.in.data == NULL);
	call(&p, &m);
	answer(&p, asked(&p, "tools/call"), "\"result\":{}");
	CHECK(m.ends == 1 && m.end == PEER_RESULT);
	peer_release(&p);
}

static void requests_of_the_server_are_refused(void)
{
	struct peer p;

	make_ready(&p);
	say(&p, "{\"id\":\"q\",\"method\":\"sampling/createMessage\",\"params\":{}}");
	CHECK(strstr(buf_text(&p.out), "\"id\":\"q\",\"error\":{\"code\":-32601") != NULL);
	buf_clear(&p.out);
	say(&p, "{\"id\":9,\"method\":\"ping\"}");
	CHECK(strstr(buf_text(&p.out), "\"id\":9,\"result\":{}") != NULL);
	for (int i = 0; i < 100000; i++)
		say(&p, "{\"id\":9,\"method\":\"ping\"}");
	CHECK(p.out.len < 100000); /* it does not read: answers are dropped */
	CHECK(p.state == PEER_READY);
	peer_release(&p);
}

static void progress_reaches_its_call(void)
{
	struct caller m;
	struct peer p;
	char line[200];

	make_ready(&p);
	call(&p, &m);
	(void)snprintf(line, sizeof(line),
		       "{\"method\":\"notifications/progress\",\"params\":{\"progressToken\":%lu,"
		       "\"progress\":1}}",
		       asked(&p, "tools/call"));
	say(&p, line);
	say(&p, "{\"method\":\"notifications/progress\",\"params\":{\"progressToken\":999}}");
	CHECK(m.progress == 1 && m.ends == 0);
	peer_release(&p);
	CHECK(m.ends == 1);
}

static void pages_without_end_are_cut(void)
{
	struct peer p;
	unsigned pages = 0;

	begin(&p);
	answer(&p, asked(&p, "initialize"), INITIALIZED);
	while (p.state == PEER_LISTING) {
		answer(&p, asked(&p, "tools/list"),
		       "\"result\":{\"tools\":[],\"nextCursor\":\"again\"}");
		CHECK(++pages < 1000);
	}
	CHECK(p.state == PEER_READY && pages == PEER_PAGES_MAX);
	peer_release(&p);
}

static void a_hundred_thousand_tools_are_cut(void)
{
	static char line[100000 * 40];
	struct peer p;
	size_t n;

	begin(&p);
	answer(&p, asked(&p, "initialize"), INITIALIZED);
	n = (size_t)snprintf(line, sizeof(line), "{\"id\":%lu,\"result\":{\"tools\":[",
			     asked(&p, "tools/list"));
	for (int i = 0; i < 100000; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, "%s{\"name\":\"t%d\"}",
				      i == 0 ? "" : ",", i);
	(void)snprintf(line + n, sizeof(line) - n, "],\"nextCursor\":\"x\"}}");
	say(&p, line);
	CHECK(p.state == PEER_READY && p.tools.n == TOOL_LIST_MAX && p.tools.dropped > 0);
	peer_release(&p);
}

static void a_long_message_is_not_cut_but_left_out(void)
{
	char text[400];
	struct peer p;

	begin(&p);
	answer(&p, asked(&p, "initialize"), INITIALIZED);
	(void)snprintf(text, sizeof(text), "\"error\":{\"code\":-1,\"message\":\"%0300d\"}", 0);
	answer(&p, asked(&p, "tools/list"), text);
	CHECK(p.state == PEER_FAILED);
	CHECK_STR(p.failure, "it refuses tools/list: its message is too long");
	peer_release(&p);
}

/* Each element costs time, also one that is left out. */
static void elements_that_are_left_out_count(void)
{
	static char line[3 << 20];
	struct peer p;
	size_t n;

	begin(&p);
	answer(&p, asked(&p, "initialize"), INITIALIZED);
	n = (size_t)snprintf(line, sizeof(line),
			     "{\"id\":%lu,\"result\":{\"tools\":[{\"name\":\"a\"}",
			     asked(&p, "tools/list"));
	for (int i = 0; i < 200000; i++)
		n += (size_t)snprintf(line + n, sizeof(line) - n, ",{\"name\":\"a\"}");
	(void)snprintf(line + n, sizeof(line) - n, ",{\"name\":\"b\"}],\"nextCursor\":\"x\"}}");
	buf_clear(&p.out);
	say(&p, line);
	CHECK(p.state == PEER_READY && p.tools.n == 1 && p.tools.dropped == TOOL_LIST_MAX);
	CHECK(p.out.len == 0); /* nor is the next page asked for */
	peer_release(&p);
}

static void bad_tools_are_left_out(void)
{
	struct peer p;

	begin(&p);
	answer(&p, asked(&p, "initialize"), INITIALIZED);
	answer(&p, asked(&p, "tools/list"),
	       "\"result\":{\"tools\":[1,{},{\"name\":1},{\"name\":\"\"},{\"name\":\"a b\"},"
	       "{\"name\":\"a/b\"},{\"name\":\"a\\u0007\"},{\"name\":\"a.b\"},{\"name\":\"a.b\"},"
	       "{\"name\":\"ok\",\"inputSchema\":3},{\"name\":\"ok\",\"na\\u006de\":\"other\","
	       "\"description\":\"d\"}]}");
	CHECK(p.state == PEER_READY && p.tools.n == 2 && p.tools.dropped == 9);
	CHECK_STR(p.tools.tools[0].name, "a.b");
	CHECK_STR(p.tools.tools[1].rest,
		  "\"description\":\"d\",\"inputSchema\":{\"type\":\"object\"}");
	peer_release(&p);
}

static void a_changed_definition_has_another_hash(void)
{
	uint8_t before[SHA256_SIZE];
	struct peer p;

	make_ready(&p);
	memcpy(before, p.tools.tools[0].hash, sizeof(before));
	say(&p, "{\"method\":\"notifications/tools/list_changed\"}");
	p.listed_at_ns = 0; /* as if it was long ago */
	peer_tick(&p);
	answer(&p, asked(&p, "tools/list"),
	       "\"result\":{\"tools\":[{\"name\":\"a\",\"description\":\"other\"}]}");
	CHECK(listed == 2 && memcmp(before, p.tools.tools[0].hash, sizeof(before)) != 0);
	peer_release(&p);
}

/* A server that changes its tools in every second. */
static void lists_are_read_again_ever_less_often(void)
{
	struct peer p;

	make_ready(&p);
	for (int second = 0; second < 100; second++) {
		say(&p, "{\"method\":\"notifications/tools/list_changed\"}");
		p.listed_at_ns -= 1001 * CLOCK_MS;
		buf_clear(&p.out);
		peer_tick(&p);
		if (p.out.len > 0)
			answer(&p, asked(&p, "tools/list"), "\"result\":{\"tools\":[]}");
	}
	CHECK(listed > 4 && listed < 10);
	p.listed_at_ns = 0; /* it was quiet */
	say(&p, "{\"method\":\"notifications/tools/list_changed\"}");
	peer_tick(&p);
	CHECK(p.relists == 0);
	peer_release(&p);
}

static void names_are_joined_and_divided(void)
{
	size_t server, tool;

	CHECK(join_split("fs__read", 8, &server, &tool) && server == 2 && tool == 4);
	CHECK(join_split("a__b__c", 7, &server, &tool) && server == 1 && tool == 3);
	CHECK(join_split("a___b", 5, &server, &tool) && tool == 3); /* the tool is _b */
	CHECK(!join_split("fs_read", 7, &server, &tool));
	CHECK(!join_split("__a", 3, &server, &tool));
	CHECK(!join_split("a__", 3, &server, &tool));
	CHECK(!join_split("a/b__c", 6, &server, &tool));
	CHECK(!join_server_name_is_valid("a_", 2) && !join_server_name_is_valid("a__b", 4));
	CHECK(join_server_name_is_valid("a_b-9", 5));
}

static void write_result(const char *text, char *ret, size_t cap)
{
	struct json_value result;
	struct err e;
	struct json j;

	CHECK(json_read(text, strlen(text), PEER_DEPTH_MAX, &result, &e) == 0);
	json_init(&j, ret, cap);
	json_open(&j, NULL, '{');
	join_write_result(&j, result);
	json_close(&j, '}');
	CHECK(json_ok(&j));
}

static void a_result_has_each_member_once(void)
{
	char many[2048] = "{", ret[2048];

	write_result("{\"content\":[],\"_meta\":{},\"resultType\":\"x\",\"isError\":true,"
		     "\"isError\":false,\"\\u0061\":1,\"b\":{\"b\":[2]}}",
		     ret, sizeof(ret));
	CHECK_STR(ret, "{\"content\":[],\"isError\":true,\"b\":{\"b\":[2]}}");
	write_result("{\"content\":[\r1,\r\n\"\\r\"]}", ret, sizeof(ret));
	CHECK_STR(ret, "{\"content\":[ 1,  \"\\r\"]}"); /* one line */
	for (int i = 0; i < 100; i++)
		(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "%s\"m%d\":0",
			       i == 0 ? "" : ",", i);
	(void)snprintf(many + strlen(many), sizeof(many) - strlen(many), "}");
	write_result(many, ret, sizeof(ret));
	CHECK(strstr(ret, "\"m31\"") != NULL && strstr(ret, "\"m32\"") == NULL);
}

static void feed_head(struct peer *p, unsigned long id)
{
	char head[128];
	int n = snprintf(head, sizeof(head),
			 "{\"jsonrpc\":\"2.0\",\"id\":%lu,\"result\":{\"content\":[{\"text\":\"",
			 id);

	peer_feed(p, head, (size_t)n);
}

/* Then a call is refused, or ends, and the next one works. */
static void what_waits_needs_room(void)
{
	struct caller m;
	struct peer_call c = { .on_done = on_done };
	struct peer p;
	unsigned long id;
	struct err e;

	make_ready(&p);
	room = 50;
	CHECK(peer_call(&p, &c, "a", (struct json_value){ 0 }, 60000, &e) < 0);
	CHECK(e.code == ERR_LIMIT && strstr(e.msg, "tenant_bodies_max") != NULL && p.out.len == 0);
	room = SIZE_MAX;
	call(&p, &m);
	id = asked(&p, "tools/call");
	room = 20;
	feed_head(&p, id);
	CHECK(m.ends == 0 && p.in.len == 0);
	room = SIZE_MAX;
	say(&p, "\"}]}}");
	CHECK(m.ends == 1 && m.end == PEER_LOST && strstr(m.text, "tenant_bodies_max") != NULL);
	call(&p, &m);
	answer(&p, asked(&p, "tools/call"), "\"result\":{\"content\":[]}");
	CHECK(m.ends == 1 && m.end == PEER_RESULT);
	peer_release(&p);
}

TEST_MAIN({ "older_servers_are_initialized", older_servers_are_initialized },
	  { "the_version_is_masked", the_version_is_masked },
	  { "newer_servers_are_discovered", newer_servers_are_discovered },
	  { "a_server_that_refuses_both_fails", a_server_that_refuses_both_fails },
	  { "calls_end_once", calls_end_once },
	  { "a_cancelled_call_never_ends", a_cancelled_call_never_ends },
	  { "calls_expire", calls_expire }, { "garbage_is_ignored", garbage_is_ignored },
	  { "messages_come_in_pieces", messages_come_in_pieces },
	  { "a_long_answer_ends_its_call", a_long_answer_ends_its_call },
	  { "an_answer_of_many_values_ends_its_call", an_answer_of_many_values_ends_its_call },
	  { "what_waits_needs_room", what_waits_needs_room },
	  { "noise_is_counted", noise_is_counted },
	  { "requests_of_the_server_are_refused", requests_of_the_server_are_refused },
	  { "progress_reaches_its_call", progress_reaches_its_call },
	  { "pages_without_end_are_cut", pages_without_end_are_cut },
	  { "a_hundred_thousand_tools_are_cut", a_hundred_thousand_tools_are_cut },
	  { "a_long_message_is_not_cut_but_left_out", a_long_message_is_not_cut_but_left_out },
	  { "elements_that_are_left_out_count", elements_that_are_left_out_count },
	  { "lists_are_read_again_ever_less_often", lists_are_read_again_ever_less_often },
	  { "bad_tools_are_left_out", bad_tools_are_left_out },
	  { "a_changed_definition_has_another_hash", a_changed_definition_has_another_hash },
	  { "names_are_joined_and_divided", names_are_joined_and_divided },
	  { "a_result_has_each_member_once", a_result_has_each_member_once })
