/* verb_port.c - cordon port: opens a port of a session for clients without a key, and closes it. */
#include "cmd/client/api_call.h"
#include "cmd/client/compose.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"

/* The verb opens one port, or closes it with --close. */
struct port_fields {
	struct args_common common;
	bool close;
};

/* clang-format off */
static const struct option options[] = {
	{ "close", NULL, OPTION_FLAG, offsetof(struct port_fields, close), 0, 0,
	  "closes the port: its URL and the connections by it end" },
	ARGS_COMMON(struct port_fields),
};
/* clang-format on */

/* A closed port has no answer to print. The URL of an open one is all that a client needs to use
 * it. */
static int port_change(const struct port_fields *f, const char *name, json_int_t port,
		       struct err *e)
{
	OWN_API_CALL a = { 0 };
	OWN_JSON *body = NULL, *answer = NULL;
	char session[ID_MATCH_ID_MAX], number[16];
	struct target t;

	if (api_call_open(&a, &f->common, API_CALL_ANSWER_MS, e) < 0 ||
	    id_match_session(&a, name, session, e) < 0)
		return -1;
	if (f->close) {
		(void)snprintf(number, sizeof(number), "%d", (int)port);
		id_match_target(&t, session, "ports");
		target_part(&t, number);
		return api_call_json(&a, "DELETE", &t, NULL, &answer, e);
	}
	body = json_pack("{s:I}", "port", port);
	id_match_target(&t, session, "ports");
	if (api_call_json(&a, "POST", &t, body, &answer, e) < 0)
		return -1;
	if (f->common.json) {
		show_json(answer, true, stdout);
		return 0;
	}
	show_text(member_text(answer, "url", "?"), stdout);
	(void)putchar('\n');
	return 0;
}

static int port_run(int argc, char **argv)
{
	static struct port_fields f;
	static struct args_words words;
	struct err e = { 0 };
	json_int_t port;
	int code = args_read(&verb_port, argc, argv, &f, &words, 2, 2);

	if (code != ARGS_GO)
		return code;
	if (compose_port(words.at[1], &port, &e) < 0)
		return args_refused(&verb_port, &e);
	return port_change(&f, words.at[0], port, &e) < 0 ? args_refused(&verb_port, &e) : ARGS_OK;
}

const struct verb verb_port = {
	.name = "port",
	.usage = "[options] SESSION PORT",
	.summary =
		"Opens a port of a session, and prints the URL of the server that listens there; "
		"or closes it.",
	.text = "Every client that knows the URL can use that port until it is closed or the "
		"session ends.\n"
		"Clients with a key of scope sessions (X-API-Key) need none. A port that is "
		"opened\n"
		"again has another URL.\n",
	.examples = "curl \"$(cordon port ID 8000)\"\n"
		    "cordon port --close ID 8000\n",
	.options = options,
	.noptions = COUNT(options),
	.run = port_run,
};
