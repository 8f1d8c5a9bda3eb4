/* Goal: a StartRequest becomes what the core is asked for, what List says of it is what was given,
 * and the messages of a stream are those of the contract, byte for byte. */
#include "front/e2b/envd/process_event.h"
#include "front/e2b/envd/process_spec.h"

#include "support.h"

static struct err e;

static int understood(const char *text, struct process_spec *ret)
{
	json_t *m = rpc_parse(text, strlen(text), &e);
	int r;

	CHECK(m != NULL);
	r = process_spec_read(m, ret, &e);
	json_decref(m);
	return r;
}

static void as_the_sdk_sends_it(void)
{
	static const char strings[] = "/bin/bash\0-l\0-c\0echo hi\0A=1\0B=\0";
	struct process_spec s;
	OWN_MEM char *text = NULL;

	CHECK(understood("{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo hi\"],"
			 "\"envs\":{\"A\":\"1\",\"B\":\"\"},\"cwd\":\"/"
			 "tmp\"},\"stdin\":false,\"new\":1}",
			 &s) == 0);
	CHECK(s.argc == 4 && s.envc == 2 && !s.pty && !s.stdin_open);
	CHECK(s.strings.len == sizeof(strings) - 1 &&
	      memcmp(s.strings.data, strings, s.strings.len) == 0);
	CHECK_STR(s.cwd, "/tmp");
	text = process_spec_text(&s);
	CHECK_STR(text, "/bin/bash -l -c echo hi");
	process_spec_release(&s);
}

static void a_terminal(void)
{
	struct process_spec s;

	CHECK(understood("{\"process\":{\"cmd\":\"sh\"},\"pty\":{\"size\":{\"cols\":80,\"rows\":"
			 "\"24\"}}"
			 "}",
			 &s) == 0);
	CHECK(s.pty && s.stdin_open && s.rows == 24 && s.cols == 80 && s.cwd == NULL);
	process_spec_release(&s);
	CHECK(understood("{\"process\":{\"cmd\":\"sh\",\"cwd\":\"\"},\"pty\":{\"size\":{\"cols\":"
			 "99999}}"
			 "}",
			 &s) == 0);
	CHECK(s.pty && s.rows == 0 && s.cols == UINT16_MAX && s.cwd == NULL);
	process_spec_release(&s);
}

static void mistakes(void)
{
	static const struct {
		const char *text, *word;
	} bad[] = {
		{ "{}", "cmd" },
		{ "{\"process\":{}}", "cmd" },
		{ "{\"process\":1}", "process" },
		{ "{\"process\":{\"cmd\":\"\"}}", "cmd" },
		{ "{\"process\":{\"cmd\":\"a\",\"args\":\"b\"}}", "args" },
		{ "{\"process\":{\"cmd\":\"a\",\"args\":[1]}}", "args" },
		{ "{\"process\":{\"cmd\":\"a\",\"envs\":{\"A=\":\"\"}}}", "envs" },
		{ "{\"process\":{\"cmd\":\"a\",\"envs\":{\"\":\"\"}}}", "envs" },
		{ "{\"process\":{\"cmd\":\"a\",\"envs\":{\"A\":1}}}", "envs" },
		{ "{\"process\":{\"cmd\":\"a\"},\"pty\":true}", "pty" },
		{ "{\"process\":{\"cmd\":\"a\"},\"stdin\":1}", "stdin" },
		{ "{\"process\":{\"cmd\":\"a\"},\"tag\":1}", "tag" },
	};

	for (size_t i = 0; i < COUNT(bad); i++) {
		struct process_spec s;

		memset(&e, 0, sizeof(e));
		CHECK(understood(bad[i].text, &s) < 0);
		CHECK(e.code == ERR_INVALID && strstr(e.msg, bad[i].word) != NULL);
		process_spec_release(&s);
	}
}

static void defaults_of_the_environment(void)
{
	static const char others[] = "E2B_SANDBOX_ID=mine";
	struct process_spec s;

	CHECK(understood("{\"process\":{\"cmd\":\"E2B_SANDBOX=x\",\"envs\":{\"E2B_T\":\"t\"}}}",
			 &s) == 0);
	process_spec_default(&s, others, sizeof(others), "E2B_SANDBOX", "true");
	process_spec_default(&s, others, sizeof(others), "E2B_SANDBOX_ID", "other");
	process_spec_default(&s, others, sizeof(others), "E2B_T", "u");
	process_spec_default(&s, NULL, 0, "E2B", "");
	CHECK(s.argc == 1 && s.envc == 3);
	CHECK(s.strings.len == 14 + 8 + 17 + 5);
	CHECK(memcmp(s.strings.data, "E2B_SANDBOX=x\0E2B_T=t\0E2B_SANDBOX=true\0E2B=\0", 44) == 0);
	process_spec_release(&s);
}

static void shown(const char *client, const char *command, const char *want)
{
	char text[4096];
	struct json j;

	json_init(&j, text, sizeof(text));
	json_open(&j, NULL, '{');
	process_spec_show(&j, client, command);
	json_close(&j, '}');
	CHECK_STR(text, want);
}

static void what_list_says(void)
{
	struct process_spec s;

	CHECK(understood("{\"process\":{\"cmd\":\"a\",\"args\":[\"\\\"\"],\"envs\":{\"K\":\"V\"},"
			 "\"cwd\":\"/\"},\"tag\":\"t\xc3\xa4\"}",
			 &s) == 0);
	shown(s.client, "",
	      "{\"config\":{\"cmd\":\"a\",\"args\":[\"\\\"\"],\"envs\":{\"K\":\"V\"},\"cwd\":\"/"
	      "\"},"
	      "\"tag\":\"t\xc3\xa4\"}");
	CHECK(process_spec_has_tag(s.client, "t\xc3\xa4"));
	CHECK(!process_spec_has_tag(s.client, "t") && !process_spec_has_tag("", "t"));
	process_spec_release(&s);
	CHECK(understood("{\"process\":{\"cmd\":\"\\\"tag\\\"\"}}", &s) == 0);
	CHECK(!process_spec_has_tag(s.client, "tag") && !process_spec_has_tag(s.client, ""));
	process_spec_release(&s);
	shown("", "sleep 1", "{\"config\":{\"cmd\":\"sleep 1\"}}");
}

/* What is kept is not parsed anew for each question: the tag is in front, and the rest, which is no
 * JSON here, is neither read nor changed. */
static void kept_text_is_not_parsed(void)
{
	static const char kept[] = "{\"tag\":\"a\\\"\\\\\",\"config\":{\"cmd\":nonsense}}";

	CHECK(process_spec_has_tag(kept, "a\"\\") && !process_spec_has_tag(kept, "a"));
	CHECK(!process_spec_has_tag(kept, "a\\\"\\\\"));
	shown(kept, "", "{\"config\":{\"cmd\":nonsense},\"tag\":\"a\\\"\\\\\"}");
	CHECK(!process_spec_has_tag("{\"tag\":null,\"config\":{\"cmd\":\"x\"}}", "null"));
	shown("{\"tag\":null,\"config\":{\"cmd\":\"x\"}}", "", "{\"config\":{\"cmd\":\"x\"}}");
}

/* Of executions that an earlier version started. */
static void earlier_forms_are_read(void)
{
	static const char kept[] = "{\"cmd\":\"x\",\"args\":[\"y\"],\"cwd\":\"/\",\"tag\":\"t\"}";

	CHECK(process_spec_has_tag(kept, "t") && !process_spec_has_tag(kept, "u"));
	shown(kept, "",
	      "{\"config\":{\"cmd\":\"x\",\"args\":[\"y\"],\"cwd\":\"/\"},\"tag\":\"t\"}");
	shown("{\"tag\":\"unfinished", "x", "{\"config\":{\"cmd\":\"x\"}}");
}

static void long_ones_are_kept_short(void)
{
	static char text[300000];
	struct process_spec s;
	size_t n;

	n = (size_t)snprintf(text, sizeof(text),
			     "{\"tag\":\"t\",\"process\":{\"cmd\":\"c\",\"args\":[\"");
	memset(text + n, 'x', 200000);
	(void)snprintf(text + n + 200000, 64, "\"]}}");
	CHECK(understood(text, &s) == 0 && s.argc == 2 && s.strings.len == 200003);
	CHECK_STR(s.client, "{\"tag\":\"t\",\"config\":{\"cmd\":\"c\"}}");
	process_spec_release(&s);
}

static void selectors(void)
{
	static const struct {
		const char *text;
		enum err_code want;
	} cases[] = {
		{ "{\"process\":{\"pid\":12}}", ERR_NONE },
		{ "{\"process\":{\"tag\":\"a\"}}", ERR_NONE },
		{ "{\"process\":{}}", ERR_UNSUPPORTED },
		{ "{}", ERR_UNSUPPORTED },
		{ "{\"process\":{\"pid\":-1}}", ERR_INVALID },
		{ "{\"process\":{\"tag\":1}}", ERR_INVALID },
		{ "{\"process\":{\"tag\":\"a\",\"pid\":1}}", ERR_INVALID },
	};

	for (size_t i = 0; i < COUNT(cases); i++) {
		json_t *m = rpc_parse(cases[i].text, strlen(cases[i].text), &e);
		struct process_selector s;

		memset(&e, 0, sizeof(e));
		CHECK((process_selector_read(m, &s, &e) == 0) == (cases[i].want == ERR_NONE));
		CHECK(e.code == cases[i].want);
		CHECK(i != 0 || (s.pid == 12 && s.tag == NULL));
		CHECK(i != 1 || strcmp(s.tag, "a") == 0);
		process_selector_release(&s);
		json_decref(m);
	}
}

static void ended(int32_t code, int32_t sig, const char *want)
{
	const struct store_execution row = { .exit_code = code, .signal = sig };
	char text[PROCESS_EVENT_MAX];
	struct json j;

	json_init(&j, text, sizeof(text));
	process_event_end(&j, &row);
	CHECK_STR(text, want);
}

static void ends(void)
{
	ended(0, 0,
	      "{\"event\":{\"end\":{\"exitCode\":0,\"exited\":true,\"status\":\"exit status "
	      "0\"}}}");
	ended(3, 0,
	      "{\"event\":{\"end\":{\"exitCode\":3,\"exited\":true,\"status\":\"exit status 3\","
	      "\"error\":\"exit status 3\"}}}");
	ended(137, 9,
	      "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"signal: killed\","
	      "\"error\":\"signal: killed\"}}}");
	ended(143, 15,
	      "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"signal: "
	      "terminated\","
	      "\"error\":\"signal: terminated\"}}}");
	ended(128 + 40, 40,
	      "{\"event\":{\"end\":{\"exitCode\":-1,\"exited\":false,\"status\":\"signal: signal "
	      "40\","
	      "\"error\":\"signal: signal 40\"}}}");
}

static void data(void)
{
	static char text[PROCESS_EVENT_DATA_MAX];
	static uint8_t most[PROCESS_EVENT_PIECE];
	const uint8_t *hi = (const uint8_t *)"hi\n";

	CHECK(process_event_data(text, OUTPUT_STDOUT, false, hi, 3) == strlen(text));
	CHECK_STR(text, "{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}");
	CHECK(process_event_data(text, OUTPUT_STDERR, false, hi, 1) == strlen(text));
	CHECK_STR(text, "{\"event\":{\"data\":{\"stderr\":\"aA==\"}}}");
	CHECK(process_event_data(text, OUTPUT_STDOUT, true, hi, 3) == strlen(text));
	CHECK_STR(text, "{\"event\":{\"data\":{\"pty\":\"aGkK\"}}}");
	CHECK(process_event_data(text, OUTPUT_STDERR, false, most, sizeof(most)) < sizeof(text));
}

TEST_MAIN({ "a request as the SDK sends it", as_the_sdk_sends_it }, { "a terminal", a_terminal },
	  { "mistakes name their member", mistakes },
	  { "defaults of the environment", defaults_of_the_environment },
	  { "what List says", what_list_says },
	  { "kept text is not parsed", kept_text_is_not_parsed },
	  { "earlier forms are read", earlier_forms_are_read },
	  { "long commands are kept without arguments", long_ones_are_kept_short },
	  { "selectors", selectors }, { "how a process ended", ends }, { "data", data })
