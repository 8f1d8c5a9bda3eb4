/* verb_export.c - cordon export: sends the audit log and what sessions did to other tools, for as
 * long as it runs. cordond has no way out, so this program reads and sends.
 *
 * A batch is read behind the cursor, sent until its receiver has it, and only then the cursor is
 * written. So the program may be killed at any moment: what it had not noted is sent again, under
 * the same ids. */
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cmd/client/export_sink.h"
#include "cmd/client/export_source.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/verbs.h"
#include "lib/base/clock.h"
#include "lib/base/rand.h"

#define RETRY_MIN_MS 500
#define RETRY_MAX_MS 60000
#define ONCE_MS 60000 /* --once gives up after failing for so long */

struct export_fields {
	struct args_common common;
	const char *file, *syslog, *otlp;
	const char *headers, *otlp_ca, *cursor, *tenant;
	uint64_t max_size, max_files, interval_ms, metrics_ms;
	bool values, once;
};

/* clang-format off */
#define FIELD(name) offsetof(struct export_fields, name)
static const struct option options[] = {
	{ "file", "PATH", OPTION_TEXT, FIELD(file), 0, 0,
	  "writes JSON lines to this file" },
	{ "max-size", "SIZE", OPTION_BYTES, FIELD(max_size), 0, UINT64_MAX,
	  "of --file: at this size it becomes PATH.1 (default 64M; 0: never)" },
	{ "max-files", "N", OPTION_COUNT, FIELD(max_files), 1, 1000,
	  "of --file: how many are kept (default 8)" },
	{ "syslog", "ADDRESS", OPTION_TEXT, FIELD(syslog), 0, 0,
	  "sends messages of RFC 5424: udp://HOST:PORT, tcp://HOST:PORT, unix:/dev/log" },
	{ "otlp", "URL", OPTION_TEXT, FIELD(otlp), 0, 0,
	  "sends logs, traces and metrics to an OpenTelemetry receiver (http://host:4318)" },
	{ "headers-from", "FILE", OPTION_TEXT, FIELD(headers), 0, 0,
	  "of --otlp: lines Name: value, sent with each request" },
	{ "otlp-ca", "FILE", OPTION_TEXT, FIELD(otlp_ca), 0, 0,
	  "of --otlp: certificates to trust instead of the system's" },
	{ "metrics", "TIME", OPTION_TIME, FIELD(metrics_ms), 0, 86400000,
	  "of --otlp: time between metrics (default 60s; 0: none)" },
	{ "cursor", "FILE", OPTION_TEXT, FIELD(cursor), 0, 0,
	  "keeps how far the export has come; needed" },
	{ "tenant", "ID", OPTION_TEXT, FIELD(tenant), 0, 0,
	  "the audit log of another tenant, or of the node (node); for keys of the operator" },
	{ "values", NULL, OPTION_FLAG, FIELD(values), 0, 0,
	  "also sends values that the log keeps erasable, such as commands and paths" },
	{ "interval", "TIME", OPTION_TIME, FIELD(interval_ms), 100, 30000,
	  "time between looks for something new (default 1s)" },
	{ "once", NULL, OPTION_FLAG, FIELD(once), 0, 0,
	  "ends when everything until now was sent" },
	ARGS_COMMON(struct export_fields),
};
#undef FIELD
/* clang-format on */

/* One export that runs. Four parts do the work: source reads a batch, sink delivers it, cursor
 * remembers it, and calls counts the model calls in it. */
struct exporting {
	const struct export_fields *f;
	struct api_call api;
	struct export_sink sink;
	struct export_source source;
	struct export_cursor cursor;
	struct export_calls calls;
	uint64_t metrics_ns; /* when they were sent last. 0: never */
	uint64_t failing_ns; /* since when nothing has worked. 0: it does */
	uint64_t pause_ms;
	bool told;
};

/* A signal ends the pause early, which does no harm. */
static void sleep_ms(uint64_t ms)
{
	const struct timespec t = { .tv_sec = (time_t)(ms / 1000),
				    .tv_nsec = (long)(ms % 1000) * 1000000 };

	(void)nanosleep(&t, NULL);
}

/* Wait before the next try, at least as long as the receiver wants. -1: it is to end. The
 * message comes once for each failure that lasts. The pause has a random part, so that many
 * exports do not come back to a receiver at the same time. */
static int wait_longer(struct exporting *x, uint64_t least_ms, const struct err *e)
{
	uint64_t now = clock_now_ns();
	uint16_t dice;

	if (x->failing_ns == 0)
		x->failing_ns = now;
	if (x->f->once && now - x->failing_ns + least_ms * CLOCK_MS > ONCE_MS * CLOCK_MS)
		return -1;
	if (!x->told) {
		(void)fputs("cordon: export waits: ", stderr);
		show_text(e->msg, stderr);
		(void)fputc('\n', stderr);
		x->told = true;
	}
	/* Between half and all of a pause that doubles. */
	x->pause_ms = x->pause_ms == 0 ? RETRY_MIN_MS : x->pause_ms * 2;
	if (x->pause_ms > RETRY_MAX_MS)
		x->pause_ms = RETRY_MAX_MS;
	rand_bytes(&dice, sizeof(dice));
	sleep_ms(least_ms + x->pause_ms / 2 + dice % (x->pause_ms / 2 + 1));
	return 0;
}

/* Called after each success. The message comes only if one about a failure came before. */
static void works_again(struct exporting *x)
{
	if (x->told)
		(void)fputs("cordon: export continues\n", stderr);
	x->told = false;
	x->failing_ns = x->pause_ms = 0;
}

static struct export_node node_of(const struct exporting *x)
{
	return (struct export_node){ .origin = x->source.origin,
				     .tenant = x->source.own_tenant,
				     .version = CORDON_VERSION };
}

/* Until the receiver has the batch, or has refused it for good. Then the export ends with the
 * cursor before the batch, so nothing is skipped. */
static int export_deliver(struct exporting *x, struct err *e)
{
	const struct export_node node = node_of(x);

	for (;;) {
		uint64_t wait_ms = UINT64_MAX;

		if (x->sink.send(&x->sink, &node, x->source.items, x->source.n, &wait_ms, e) == 0)
			break;
		if (wait_ms == UINT64_MAX || wait_longer(x, wait_ms, e) < 0)
			return -1;
	}
	works_again(x);
	return 0;
}

/* Metrics tell how it is now: those that could not be sent are not sent later. Only a receiver
 * that refuses them for good ends the export. */
static int send_metrics(struct exporting *x, struct err *e)
{
	const struct export_node node = node_of(x);
	uint64_t now = clock_now_ns(), wait_ms = 0;
	OWN_JSON *sessions = NULL;

	if (x->sink.metrics == NULL || x->f->metrics_ms == 0 || x->f->tenant != NULL ||
	    (x->metrics_ns != 0 && now - x->metrics_ns < x->f->metrics_ms * CLOCK_MS))
		return 0;
	x->metrics_ns = now;
	if (export_source_sessions(&x->source, &sessions, e) < 0)
		return api_call_is_temporary(&x->api) ? 0 : -1;
	if (x->sink.metrics(&x->sink, &node, sessions, &x->calls, &wait_ms, e) == 0 ||
	    wait_ms != UINT64_MAX)
		return 0;
	return -1;
}

/* 1: it is done. 0: to be called again. The order makes it safe to kill the program: read,
 * deliver, and only then write the cursor. Calls are counted after the delivery, so a batch that
 * is sent twice counts once. */
static int export_turn(struct exporting *x, struct err *e)
{
	int got = export_source_next(&x->source, &x->cursor, e);

	if (got < 0) {
		/* The server may be restarting, or have too many requests at the moment. */
		bool waits = api_call_is_temporary(&x->api) || x->api.status == 429;

		return waits && wait_longer(x, 0, e) == 0 ? 0 : -1;
	}
	works_again(x);
	if (got > 0) {
		if (export_deliver(x, e) < 0)
			return -1;
		export_calls_count(&x->calls, x->source.items, x->source.n);
		x->cursor = x->source.after;
		if (export_cursor_save(&x->cursor, e) < 0)
			return -1;
	}
	if (send_metrics(x, e) < 0)
		return -1;
	if (got == 0 && x->f->once)
		return 1;
	if (got == 0)
		sleep_ms(x->f->interval_ms);
	return 0;
}

/* Exactly one of the three was given. */
static int open_sink(struct exporting *x, struct err *e)
{
	const struct export_fields *f = x->f;

	if (f->file != NULL)
		return export_file_open(&x->sink, f->file, f->max_size, f->max_files, e);
	if (f->syslog != NULL)
		return export_socket_open(&x->sink, f->syslog, e);
	return export_otlp_open(&x->sink, f->otlp, f->headers, f->otlp_ca, e);
}

/* The cursor comes first, because its lock keeps a second export away. */
static int export_run(struct exporting *x, struct err *e)
{
	int done = 0;

	x->sink.fd = x->cursor.lock = -1;
	if (export_cursor_open(&x->cursor, x->f->cursor, e) == 0 && open_sink(x, e) == 0 &&
	    export_source_open(&x->source, e) == 0) {
		while (done == 0)
			done = export_turn(x, e);
	} else {
		done = -1;
	}
	export_source_release(&x->source);
	if (x->sink.release != NULL)
		x->sink.release(&x->sink);
	export_cursor_close(&x->cursor);
	return done;
}

/* Spans need details of sessions and executions, which the key can read for its own tenant only.
 * Accept is set for every request, because the audit log has other forms, too. */
static int verb_export_run(int argc, char **argv)
{
	static struct export_fields f = {
		.max_size = 64U << 20, .max_files = 8, .interval_ms = 1000, .metrics_ms = 60000
	};
	static struct exporting x;
	static struct args_words words;
	struct err e = { 0 };
	int code = args_read(&verb_export, argc, argv, &f, &words, 0, 0);

	if (code != ARGS_GO)
		return code;
	if ((f.file != NULL) + (f.syslog != NULL) + (f.otlp != NULL) != 1)
		return args_wrong(&verb_export, "one of --file, --syslog and --otlp is needed");
	if (f.cursor == NULL)
		return args_wrong(&verb_export, "--cursor is needed");
	x.f = &f;
	if (api_call_open(&x.api, &f.common, API_CALL_ANSWER_MS, &e) < 0)
		return args_refused(&verb_export, &e);
	x.api.headers[x.api.nheaders++] = (struct client_header){ "Accept", "application/json" };
	x.source = (struct export_source){ .api = &x.api,
					   .tenant = f.tenant,
					   .values = f.values,
					   .details = f.otlp != NULL && f.tenant == NULL };
	x.calls.since_ms = clock_wall_ms();
	code = export_run(&x, &e);
	api_call_close(&x.api);
	return code < 0 ? args_refused(&verb_export, &e) : ARGS_OK;
}

const struct verb verb_export = {
	.name = "export",
	.usage = "[options] --cursor FILE --file PATH|--syslog ADDRESS|--otlp URL",
	.summary = "Sends the audit log and what sessions did to a file, syslog or OpenTelemetry.",
	.text = "Begins with the oldest record, continues after the cursor, and runs until it is "
		"ended. Each item\n"
		"arrives at least once: one that arrives twice has the same number or id. The key "
		"needs the scopes\n"
		"audit and read. With OpenTelemetry a session is a trace, its executions, requests "
		"and packages are\n"
		"spans, and calls of models follow the conventions for generative AI.\n",
	.examples = "cordon export --cursor /var/lib/x/cursor --file /var/log/cordon.jsonl\n"
		    "cordon export --cursor c --syslog tcp://logs.example:601\n"
		    "cordon export --cursor c --otlp http://127.0.0.1:4318 --headers-from h\n",
	.options = options,
	.noptions = COUNT(options),
	.run = verb_export_run,
};
