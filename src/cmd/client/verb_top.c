/* verb_top.c - cordon top: shows running sessions and the resources they use, refreshed.
 *
 * Every turn lists the running sessions and reads the metrics of each. The share of a processor is
 * the difference of two turns. The screen is the terminal's alternate one, so that its contents
 * come back, also after an interrupt: signals are read from a descriptor. */
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>

#include "cmd/base/terminal.h"
#include "cmd/client/columns.h"
#include "cmd/client/id_match.h"
#include "cmd/client/member.h"
#include "cmd/client/show.h"
#include "cmd/client/show_json.h"
#include "cmd/client/verbs.h"
#include "lib/base/clock.h"
#include "lib/base/str.h"
#include "lib/base/units.h"

#define SESSIONS_MAX 200

struct top_fields {
	struct args_common common;
	uint64_t interval_ms;
	bool once;
};

/* clang-format off */
static const struct option options[] = {
	{ "interval", "TIME", OPTION_TIME, offsetof(struct top_fields, interval_ms), 200, 3600000,
	  "time between updates (default 2s)" },
	{ "once", NULL, OPTION_FLAG, offsetof(struct top_fields, once), 0, 0,
	  "prints the table once; also without a terminal" },
	ARGS_COMMON(struct top_fields),
};
/* clang-format on */

/* One session at one moment. before[] has those of the last turn, which find_share() compares. */
struct sample {
	char id[ID_MATCH_ID_MAX];
	uint64_t cpu_ms, at_ns;
	int share; /* thousandths of a processor. -1: not known yet */
	uint64_t memory, memory_max, pids, pids_max, disk;
	char state[16], pairs[COLUMNS_CELL_MAX];
};

/* now has the rows of the screen. all counts the sessions at the server, of which at most
 * SESSIONS_MAX have a sample. */
struct top {
	struct sample now[SESSIONS_MAX], before[SESSIONS_MAX];
	size_t nnow, nbefore, all;
	json_t *raw; /* for --json */
};

/* Without an earlier sample the share is not known. A smaller time than before counts from a new
 * beginning, so it gives no share either. */
static void find_share(struct top *top, struct sample *s)
{
	s->share = -1;
	for (size_t i = 0; i < top->nbefore; i++) {
		const struct sample *b = &top->before[i];
		uint64_t ms = (s->at_ns - b->at_ns) / CLOCK_MS;

		if (strcmp(b->id, s->id) == 0 && ms > 0 && s->cpu_ms >= b->cpu_ms)
			s->share = (int)((s->cpu_ms - b->cpu_ms) * 1000 / ms);
	}
}

/* A session that ends between the list and its metrics is left out of this turn. Its object in
 * the list gets the metrics, for --json. */
static void sample_one(struct top *top, struct api_call *a, json_t *session)
{
	struct sample *s = &top->now[top->nnow];
	OWN_JSON *metrics = NULL;
	struct err e = { 0 };
	struct target t;
	const json_t *now, *limits;

	*s = (struct sample){ .at_ns = clock_now_ns() };
	str_copy(s->id, member_text(session, "id", "?"));
	str_copy(s->state, member_text(session, "state", "?"));
	show_json_pairs(member_group(session, "metadata"), s->pairs, sizeof(s->pairs));
	id_match_target(&t, s->id, "metrics");
	if (api_call_json(a, "GET", &t, NULL, &metrics, &e) < 0)
		return; /* it has just ended */
	now = member_group(metrics, "now");
	limits = member_group(session, "limits");
	s->cpu_ms = member_number(now, "cpu_ms", 0);
	s->memory = member_number(now, "memory_bytes", 0);
	s->pids = member_number(now, "pids", 0);
	s->disk = member_number(now, "disk_bytes", 0);
	s->memory_max = member_number(limits, "memory_bytes", 0);
	s->pids_max = member_number(limits, "pids", 0);
	find_share(top, s);
	(void)json_object_set(session, "metrics", metrics);
	top->nnow++;
}

/* The busiest first, then the largest, then by id: so the order is stable. */
static int by_share(const void *one, const void *other)
{
	const struct sample *a = one, *b = other;

	if (a->share != b->share)
		return a->share < b->share ? 1 : -1;
	return a->memory < b->memory ? 1 : a->memory > b->memory ? -1 : strcmp(a->id, b->id);
}

/* The samples of the last turn are kept even if the list fails, and the screen then shows old
 * numbers with the error. */
static int sample_all(struct top *top, struct api_call *a, struct err *e)
{
	OWN_JSON *list = NULL;
	struct target t;

	memcpy(top->before, top->now, sizeof(top->before));
	top->nbefore = top->nnow;
	top->nnow = 0;
	target_init(&t, "/v1/sessions");
	target_query(&t, "state", "running,paused");
	if (api_call_pages(a, &t, "sessions", NULL, 100000, &list, e) < 0)
		return -1;
	top->all = json_array_size(list);
	for (size_t i = 0; i < json_array_size(list) && top->nnow < SESSIONS_MAX; i++)
		sample_one(top, a, json_array_get(list, i));
	qsort(top->now, top->nnow, sizeof(top->now[0]), by_share);
	json_decref(top->raw);
	top->raw = json_incref(list);
	return 0;
}

/* One cell for each head. */
static void top_add(struct columns *t, const struct sample *s)
{
	char memory[24], memory_max[24], disk[24];

	units_format_bytes(s->memory, memory, sizeof(memory));
	units_format_bytes(s->memory_max, memory_max, sizeof(memory_max));
	units_format_bytes(s->disk, disk, sizeof(disk));
	columns_add(t, "%s", s->id);
	columns_add(t, "%s", s->state);
	if (s->share < 0)
		columns_add(t, "-");
	else
		columns_add(t, "%d.%d", s->share / 10, s->share % 10);
	columns_add(t, "%s/%s", memory, memory_max);
	columns_add(t, "%llu/%llu", (unsigned long long)s->pids, (unsigned long long)s->pids_max);
	columns_add(t, "%s", disk);
	columns_add(t, "%.1fs", (double)s->cpu_ms / 1000);
	columns_add(t, "%s", s->pairs);
}

/* rows and cols bound the table. SIZE_MAX and 0: no bound. */
static void top_print(const struct top *top, size_t rows, size_t cols)
{
	static const char *const heads[] = { "ID",   "STATE", "CPU %", "MEMORY",
					     "PIDS", "DISK",  "TIME",  "METADATA" };
	OWN_COLUMNS t;

	columns_init(&t, heads, COUNT(heads));
	for (size_t i = 0; i < top->nnow; i++)
		top_add(&t, &top->now[i]);
	columns_print(&t, rows, cols, stdout);
}

/* The whole screen. Rows that do not fit are left out. trouble is the error of the last turn, or
 * "". */
static void top_draw(const struct top *top, const char *trouble)
{
	uint16_t rows = 24, cols = 80;

	terminal_size(&rows, &cols);
	(void)fputs("\033[H\033[2J", stdout);
	(void)printf("cordon top: %zu sessions", top->all);
	if (top->all > SESSIONS_MAX)
		(void)printf(", %d shown", SESSIONS_MAX);
	(void)fputs("; q: quit  ", stdout);
	show_text(trouble, stdout);
	(void)fputs("\n\n", stdout);
	top_print(top, rows > 5 ? rows - 4U : 1, cols);
	(void)fflush(stdout);
}

/* Wait for the next turn. false: the user quits. A change of the window's size ends the wait at
 * once. Control-C is a byte here, since the terminal is raw. */
static bool wait_turn(int signals, uint64_t ms)
{
	uint64_t until = clock_now_ns() + ms * CLOCK_MS;

	for (;;) {
		struct pollfd p[] = { { .fd = STDIN_FILENO, .events = POLLIN },
				      { .fd = signals, .events = POLLIN } };
		uint64_t now = clock_now_ns();
		struct signalfd_siginfo info;
		char key = 0;

		if (now >= until)
			return true;
		if (poll(p, COUNT(p), (int)((until - now) / CLOCK_MS) + 1) <= 0)
			continue;
		if (p[0].revents != 0 &&
		    (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 3))
			return false;
		if (p[1].revents != 0 && read(signals, &info, sizeof(info)) == sizeof(info))
			return info.ssi_signo == SIGWINCH;
	}
}

/* The terminal is set back on every way out of the loop. Signals are blocked and read from a
 * descriptor, so none of them can leave the screen in the alternate mode. */
static int top_watch(struct top *top, struct api_call *a, const struct top_fields *f, struct err *e)
{
	struct terminal terminal = TERMINAL_NONE;
	struct termios mode;
	sigset_t set;
	int result = sample_all(top, a, e);

	(void)sigemptyset(&set);
	(void)sigaddset(&set, SIGINT);
	(void)sigaddset(&set, SIGTERM);
	(void)sigaddset(&set, SIGHUP);
	(void)sigaddset(&set, SIGWINCH);
	(void)sigprocmask(SIG_BLOCK, &set, NULL);
	OWN_FD signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (result < 0 || terminal_start(&terminal, -1, e) < 0)
		return -1;
	/* Keys one by one, but lines as usual. */
	if (tcgetattr(STDIN_FILENO, &mode) == 0) {
		mode.c_oflag |= OPOST;
		(void)tcsetattr(STDIN_FILENO, TCSADRAIN, &mode);
	}
	(void)fputs("\033[?1049h\033[?25l", stdout);
	top_draw(top, "");
	while (wait_turn(signals, f->interval_ms)) {
		struct err trouble = { 0 };

		IGNORED(sample_all(top, a, &trouble), "the server may come back; it is shown");
		top_draw(top, trouble.msg);
	}
	(void)fputs("\033[?25h\033[?1049l", stdout);
	(void)fflush(stdout);
	terminal_stop(&terminal);
	return 0;
}

/* Shares need two samples. */
static int sample_twice(struct top *top, struct api_call *a, struct err *e)
{
	const struct timespec moment = { .tv_nsec = 300 * 1000000L };

	if (sample_all(top, a, e) < 0)
		return -1;
	(void)nanosleep(&moment, NULL);
	return sample_all(top, a, e);
}

/* The JSON has the server's sessions with their metrics. */
static void print_once(const struct top *top, const struct top_fields *f)
{
	if (f->common.json) {
		OWN_JSON *page = json_pack("{s:O}", "sessions", top->raw);

		show_json(page, true, stdout);
	} else {
		top_print(top, SIZE_MAX, 0);
	}
}

/* Without a terminal on either side the table is printed once. */
static int top_run(int argc, char **argv)
{
	static struct top_fields f = { .interval_ms = 2000 };
	static struct args_words words;
	static struct top top;
	OWN_API_CALL a = { 0 };
	struct err e = { 0 };
	int code =
		api_call_begin(&verb_top, argc, argv, &f, &words, 0, 0, API_CALL_ANSWER_MS, &a, &e);

	if (code != ARGS_GO)
		return code;
	if (f.once || f.common.json || !isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		code = sample_twice(&top, &a, &e);
		if (code == 0)
			print_once(&top, &f);
		json_decref(top.raw);
		return code < 0 ? args_refused(&verb_top, &e) : ARGS_OK;
	}
	code = top_watch(&top, &a, &f, &e);
	json_decref(top.raw);
	return code < 0 ? args_refused(&verb_top, &e) : ARGS_OK;
}

const struct verb verb_top = {
	.name = "top",
	.usage = "[options]",
	.summary = "Shows running sessions and the resources they use; refreshes itself.",
	.text = "CPU % is relative to one processor. The key q ends the program.\n",
	.examples = "cordon top\n"
		    "cordon top --once\n",
	.options = options,
	.noptions = COUNT(options),
	.run = top_run,
};
