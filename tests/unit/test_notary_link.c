/* Goal: every call to cordon-notary ends exactly once, whatever that process does: it answers, it
 * refuses, it is killed, it is silent or answers something else. The real program is at the other
 * end wherever it can be; silence and wrong answers are the test's.
 *
 * usage: test_notary_link CORDON_NOTARY */
#include "test.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "daemon/audit/notary_link.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/tlog/tlog_note.h"
#include "lib/wire/supervisor_msg.h"

#define PATIENCE_MS 30000

static const char *program;
static struct loop *loop;
static struct notary_link *notary;
static struct err e;
static unsigned ups, replaced;

/* ---- the loop until something has happened */

static bool (*wanted)(void);
static uint64_t until_ns;

static void on_look(struct loop_timer *t)
{
	CHECK(clock_now_ns() < until_ns);
	if (wanted())
		loop_stop(loop);
	else
		loop_timer_set(loop, t, clock_now_ns() + CLOCK_MS);
}

static void wait_until(bool (*condition)(void))
{
	struct loop_timer t = { .on_expire = on_look };

	wanted = condition;
	until_ns = clock_now_ns() + PATIENCE_MS * CLOCK_MS;
	loop_timer_set(loop, &t, clock_now_ns());
	CHECK(loop_run(loop, &e) == 0);
}

/* ---- calls */

static struct call {
	struct notary_call c;
	unsigned ends;
	struct err err; /* ERR_NONE: answered */
	enum notary_type type;
	enum notary_reason reason;
	uint64_t size;
	char name[NOTARY_NAME_MAX], text[NOTARY_LINES_MAX];
} calls[4];

static void on_done(struct notary_call *c, const struct notary_msg *m, const struct err *err)
{
	struct call *k = c->arg;

	CHECK((m == NULL) == (err != NULL));
	k->ends++;
	if (err != NULL) {
		k->err = *err;
		return;
	}
	k->type = m->type;
	k->reason = m->reason;
	k->size = m->size;
	if (m->type == NOTARY_KEY_IS)
		(void)snprintf(k->name, sizeof(k->name), "%s", m->name);
	if (m->type == NOTARY_SIGNED)
		(void)snprintf(k->text, sizeof(k->text), "%s", m->lines);
}

static struct call *call(unsigned i)
{
	calls[i] = (struct call){ .c = { .on_done = on_done, .arg = &calls[i] } };
	return &calls[i];
}

static bool first_ended(void)
{
	return calls[0].ends > 0;
}

static bool all_ended(void)
{
	for (unsigned i = 0; i < COUNT(calls); i++)
		if (calls[i].ends == 0)
			return false;
	return true;
}

static bool is_up(void)
{
	return ups > 0;
}

static bool is_replaced(void)
{
	return replaced > 0;
}

static bool is_down(void)
{
	return !notary_link_is_up(notary);
}

static void on_up(void *arg)
{
	CHECK(arg == &ups);
	ups++;
}

static void on_replace(void *arg)
{
	CHECK(arg == &replaced);
	replaced++;
}

/* ---- the program */

static char folder[64];
static pid_t pid;

static void start(void)
{
	int ends[2], dir;

	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
	pid = fork();
	if (pid == 0) {
		char word[] = "--start=0:3", *argv[] = { (char *)(uintptr_t)program, word, NULL };
		int high = fcntl(ends[1], F_DUPFD, 64);

		dir = open(folder, O_RDONLY | O_DIRECTORY);
		dir = fcntl(dir, F_DUPFD, 64);
		(void)dup2(high, NOTARY_FD_CHANNEL);
		(void)dup2(dir, NOTARY_FD_DIR);
		(void)execv(program, argv);
		_exit(1);
	}
	fd_close(ends[1]);
	ups = 0;
	CHECK(notary_link_attach(notary, ends[0], &e) == 0);
	wait_until(is_up);
}

static void begin(void)
{
	(void)snprintf(folder, sizeof(folder), "/tmp/notary-link-XXXXXX");
	CHECK(mkdtemp(folder) != NULL);
	loop = loop_new(&e);
	CHECK(loop != NULL);
	notary = notary_link_new(loop, on_replace, &replaced);
	CHECK(notary != NULL && !notary_link_is_up(notary) && notary_link_down_ms(notary) > 0);
	notary_link_watch(notary, on_up, &ups);
}

static void finish(void)
{
	char path[96];

	notary_link_free(notary);
	loop_free(loop);
	if (pid > 0)
		CHECK(waitpid(pid, NULL, 0) == pid);
	for (int i = 0; i < 2; i++) {
		(void)snprintf(path, sizeof(path), "%s/%s", folder, i == 0 ? "keys" : "logs");
		(void)unlink(path);
	}
	CHECK(rmdir(folder) == 0);
}

static struct notary_sign sign_of(const char *origin, uint64_t old_size, uint64_t size,
				  const struct tlog_hash *root)
{
	return (struct notary_sign){
		.origin = origin, .old_size = old_size, .size = size, .root = root->bytes
	};
}

static void requests_are_answered(void)
{
	struct tlog_hash root;
	struct notary_sign s;
	static uint8_t body[NOTARY_BODY_MAX + 1];
	char origin[NOTARY_ORIGIN_MAX];

	begin();
	start();
	CHECK(notary_link_is_up(notary) && notary_link_down_ms(notary) == 0);
	notary_link_key(notary, &call(0)->c);
	wait_until(first_ended);
	CHECK(calls[0].type == NOTARY_KEY_IS);
	(void)snprintf(origin, sizeof(origin), "%s/ten_a/1", calls[0].name);
	tlog_leaf("a", 1, &root);
	s = sign_of(origin, 0, 1, &root);
	notary_link_sign(notary, &call(0)->c, &s);
	s = sign_of(origin, 0, 0, &root);
	notary_link_sign(notary, &call(1)->c, &s);
	notary_link_attest(notary, &call(2)->c, NOTARY_PAYLOAD_REPORT, body, NOTARY_BODY_MAX);
	notary_link_rotate(notary, &call(3)->c);
	CHECK(calls[0].ends == 0);
	wait_until(all_ended);
	CHECK(calls[0].type == NOTARY_SIGNED &&
	      strstr(calls[0].text, "\xe2\x80\x94 cordon.") != NULL);
	CHECK(calls[1].type == NOTARY_REFUSED && calls[1].reason == NOTARY_ROLLBACK &&
	      calls[1].size == 1);
	CHECK(calls[2].type == NOTARY_ATTESTED && calls[3].type == NOTARY_KEY_IS);
	notary_link_retire(notary, &call(0)->c);
	wait_until(first_ended);
	CHECK(calls[0].type == NOTARY_KEY_IS);
	notary_link_attest(notary, &call(0)->c, NOTARY_PAYLOAD_REPORT, body, sizeof(body));
	CHECK(calls[0].ends == 0);
	wait_until(first_ended);
	CHECK(calls[0].err.code == ERR_INVALID);
	finish();
}

static void killed_and_started_again(void)
{
	begin();
	notary_link_key(notary, &call(0)->c);
	CHECK(calls[0].ends == 0);
	wait_until(first_ended);
	CHECK(calls[0].err.reason == REASON_UNAVAILABLE);
	for (int i = 0; i < 3; i++) {
		start();
		CHECK(kill(pid, SIGSTOP) == 0);
		for (unsigned k = 0; k < COUNT(calls); k++)
			notary_link_key(notary, &call(k)->c);
		notary_link_cancel(&calls[2].c);
		calls[2].ends = 1;
		CHECK(kill(pid, SIGKILL) == 0 && waitpid(pid, NULL, 0) == pid);
		wait_until(all_ended);
		for (unsigned k = 0; k < COUNT(calls); k++)
			CHECK(calls[k].ends == 1 &&
			      (k == 2 || calls[k].err.reason == REASON_PEER_DIED));
		CHECK(is_down() && notary_link_down_ms(notary) > 0);
	}
	start();
	notary_link_key(notary, &call(0)->c);
	wait_until(first_ended);
	CHECK(calls[0].type == NOTARY_KEY_IS && replaced == 0);
	/* Freed with a call under way: its callback does not come. */
	notary_link_key(notary, &call(0)->c);
	finish();
	CHECK(calls[0].ends == 0);
}

/* A peer that answers another request, or that is no cordon-notary. */
static void wrong_answers(void)
{
	const struct notary_msg wrong[] = {
		{ .type = NOTARY_ATTESTED, .id = 1, .keyid = "a" },
		{ .type = NOTARY_SIGNED, .id = 1, .lines = "x" },
		{ .type = NOTARY_KEY, .id = 1 },
	};

	begin();
	for (unsigned i = 0; i < COUNT(wrong); i++) {
		struct notary_msg m = wrong[i];
		uint8_t frame[256];
		int ends[2], n;

		ups = replaced = 0;
		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
		CHECK(notary_link_attach(notary, ends[0], &e) == 0);
		wait_until(is_up);
		notary_link_key(notary, &call(0)->c);
		m.id = calls[0].c.wait.id;
		n = notary_msg_write(&m, frame, sizeof(frame));
		CHECK(n > 0 && io_write_all(ends[1], frame, (size_t)n, &e) == 0);
		wait_until(is_replaced);
		wait_until(first_ended);
		CHECK(calls[0].err.reason == REASON_PEER_DIED && is_down());
		fd_close(ends[1]);
	}
	finish();
}

int main(int argc, char **argv)
{
	static const struct test tests[] = {
		{ "requests are answered", requests_are_answered },
		{ "killed and started again", killed_and_started_again },
		{ "wrong answers", wrong_answers },
	};

	program = argc == 2 ? argv[1] : "cordon-notary";
	(void)signal(SIGPIPE, SIG_IGN);
	return test_run_all(tests, COUNT(tests));
}
