/* Goal: KILL_TREE leaves nothing alive of what a program started, whatever that did to get away,
 * and nothing else is touched. */
#include <signal.h>
#include <stdio.h>

#include "lib/base/clock.h"
#include "held.h"
#include "lib/base/io.h"
#include "test.h"

static struct err e;

/* Kills the tree of handle 1; checks that it is said, in time, after the program's own end. */
static void kill_tree(bool runs)
{
	uint64_t begin = clock_now_ns();
	struct agent_event v;

	CHECK(agent_send_kill_tree(&agent, 1, 0, &e) == 0);
	if (runs) {
		v = held_hear(AGENT_EXITED);
		CHECK(v.handle == 1 && v.signal == SIGKILL && v.timed_out == 0);
	}
	v = held_hear(AGENT_TREE_DEAD);
	printf("# took %.1f ms\n", (double)(clock_now_ns() - begin) / 1e6);
	CHECK(v.handle == 1 && v.flags == 0);
}

/* Each starts something and goes on until it is killed; "ready" when all is there. The bystander
 * has two processes, PID 1 is the third. */
static const struct {
	const char *name, *script;
	bool runs;	    /* until killed, or has ended by itself by then */
	unsigned processes; /* of its tree when it is ready; 0: not fixed */
} trees[] = {
	{ "a single program", "echo ready; exec sleep 1000", true, 1 },
	{ "children", "sleep 1000 & sleep 1000 & echo ready; wait", true, 3 },
	{ "a daemon", "(setsid sleep 1000 & ) ; sleep 0.2; echo ready; sleep 1000; exit 1", true,
	  3 },
	{ "a daemon whose program has ended", "(setsid sleep 1000 &) ; sleep 0.2; echo ready",
	  false, 1 },
	{ "a daemon of a daemon",
	  "(setsid bash -c '(setsid sleep 1000 &); exec sleep 1000' &); sleep 0.3; echo ready; "
	  "sleep 1000; exit 1",
	  true, 4 },
	{ "one that lowered its mark",
	  "(ulimit -x 17; setsid sleep 1000 &); sleep 0.2; echo ready; sleep 1000; exit 1", true,
	  3 },
	{ "one that lowered only the soft mark",
	  "(ulimit -S -x 17; setsid sleep 1000 &); sleep 0.2; echo ready; sleep 1000; exit 1", true,
	  3 },
	{ "stopped ones",
	  "(setsid bash -c 'kill -STOP $$' &); sleep 0.2; echo ready; kill -STOP $$", true, 2 },
	{ "ones that ignore signals",
	  "trap '' HUP INT TERM CONT; (setsid sleep 1000 &); sleep 0.2; echo ready; sleep 1000; "
	  "exit 1",
	  true, 3 },
	{ "one whose first thread has ended",
	  "python3 -c 'import threading, time, ctypes\n"
	  "threading.Thread(target=lambda: (print(\"ready\", flush=True), "
	  "time.sleep(1000))).start()\n"
	  "time.sleep(0.2); ctypes.CDLL(None).pthread_exit(None)'",
	  true, 0 },
	{ "a fork bomb", "echo ready; bomb() { bomb | bomb & }; bomb; read x", true, 0 },
	{ "a fork bomb of daemons",
	  "python3 -c 'import os, time\n"
	  "print(\"ready\", flush=True)\n"
	  "while True:\n"
	  "  try:\n"
	  "    if os.fork() == 0: os.setsid()\n"
	  "  except OSError: pass\n'",
	  true, 0 },
};

static void kills(size_t i)
{
	int fds[3], out;

	held_make_cell(64);
	(void)held_spawn(7, "sleep 1000; exit 1", AGENT_HOLD, 0, NULL);
	held_wait_processes(3);
	(void)held_spawn(1, trees[i].script, AGENT_HOLD, 0, fds);
	out = fds[1];
	held_expect(out, "ready\n");
	if (!trees[i].runs)
		CHECK(held_hear(AGENT_EXITED).exit_code == 0);
	if (trees[i].processes != 0)
		held_wait_processes(3 + trees[i].processes);
	else
		held_sleep(300);
	kill_tree(trees[i].runs);
	held_wait_processes(3); /* the bystander is untouched, nothing else is left */
	CHECK(held_is_silent(50));
	held_end_cell();
}

/* What another program left running, even one that is forgotten, is not ours to kill. */
static void what_was_forgotten_is_not_touched(void)
{
	held_make_cell(64);
	(void)held_spawn(9, "(setsid sleep 1000 &); sleep 0.2", AGENT_HOLD, 0, NULL);
	CHECK(held_hear(AGENT_EXITED).handle == 9);
	CHECK(agent_send_forget(&agent, 9, &e) == 0);
	(void)held_spawn(1, "sleep 1000", AGENT_HOLD, 0, NULL);
	(void)held_spawn(8, "sleep 1000", AGENT_HOLD, 0, NULL);
	held_sleep(100);
	kill_tree(true);
	held_wait_processes(3);
	held_end_cell();
}

static void a_timeout_kills_the_tree(void)
{
	struct agent_event v;

	held_make_cell(64);
	(void)held_spawn(1, "(setsid sleep 1000 &); sleep 1000; exit 1", AGENT_HOLD, 400, NULL);
	v = held_hear(AGENT_EXITED);
	CHECK(v.timed_out == 1 && v.signal == SIGKILL);
	held_wait_processes(1);
	CHECK(held_is_silent(50)); /* nobody asked for TREE_DEAD */
	held_end_cell();
}

static void it_is_answered_for_nobody(void)
{
	struct agent_event v;

	held_make_cell(64);
	CHECK(agent_send_kill_tree(&agent, 4711, 0, &e) == 0);
	v = held_hear(AGENT_TREE_DEAD);
	CHECK(v.handle == 4711 && v.flags == AGENT_NOT_KNOWN);
	(void)held_spawn(1, "exit 0", AGENT_HOLD, 0, NULL);
	(void)held_hear(AGENT_EXITED);
	kill_tree(false);
	held_end_cell();
}

/* Starts a program under handle 9 that leaves a daemon behind, and has it forgotten. Its mark. */
static uint64_t leave_daemon(const char *script)
{
	struct agent_event v;

	held_ask_spawn(9, script, AGENT_HOLD, 0);
	v = held_hear(AGENT_STARTED);
	for (size_t i = 0; i < agent.nfds; i++)
		io_close_all(&agent.fds[i], 1);
	agent.nfds = 0;
	CHECK(v.handle == 9 && v.mark != 0);
	CHECK(held_hear(AGENT_EXITED).handle == 9);
	CHECK(agent_send_forget(&agent, 9, &e) == 0);
	return v.mark;
}

#define DAEMON "(setsid sleep 1000 >/dev/null 2>&1 &); sleep 0.2"

static void what_was_forgotten_is_killed_by_its_mark(void)
{
	uint64_t other, mark;
	struct agent_event v;

	held_make_cell(64);
	other = leave_daemon(DAEMON);
	mark = leave_daemon(DAEMON);
	CHECK(mark != other);
	held_wait_processes(3);
	CHECK(agent_send_kill_tree(&agent, 77, mark, &e) == 0);
	v = held_hear(AGENT_TREE_DEAD);
	CHECK(v.handle == 77 && v.flags == 0);
	CHECK(held_processes() == 2); /* the other's daemon is untouched */
	/* Its record is gone: the handle is free, and nobody is left to kill. */
	CHECK(agent_send_kill_tree(&agent, 77, 0, &e) == 0);
	CHECK(held_hear(AGENT_TREE_DEAD).flags == AGENT_NOT_KNOWN);
	CHECK(agent_send_kill_tree(&agent, 77, mark, &e) == 0);
	CHECK(held_hear(AGENT_TREE_DEAD).flags == 0);
	(void)held_spawn(77, "exit 0", AGENT_HOLD, 0, NULL);
	CHECK(held_hear(AGENT_EXITED).handle == 77);
	held_end_cell();
}

/* More often than there are records: each is freed. And several at once. */
static void marks_do_not_fill_the_table(void)
{
	uint64_t mark;

	held_make_cell(64);
	mark = leave_daemon(DAEMON);
	for (uint32_t i = 0; i < 2 * AGENT_PROGRAMS_MAX; i += 8) {
		for (uint32_t k = 0; k < 8; k++)
			CHECK(agent_send_kill_tree(&agent, 100 + i + k, mark, &e) == 0);
		for (uint32_t k = 0; k < 8; k++)
			CHECK(held_hear(AGENT_TREE_DEAD).flags == 0);
	}
	held_wait_processes(1);
	CHECK(held_is_silent(50));
	held_end_cell();
}

static void a_mark_that_was_never_given_is_nobodys(void)
{
	uint64_t mark, wrong[5];

	held_make_cell(64);
	mark = 1ULL << 62; /* what PID 1 itself might have */
	CHECK(agent_send_kill_tree(&agent, 5, mark, &e) == 0);
	CHECK(held_hear(AGENT_TREE_DEAD).flags == AGENT_NOT_KNOWN);
	mark = leave_daemon(DAEMON);
	wrong[0] = 1;
	wrong[1] = mark - 1;
	wrong[2] = mark + 1;
	wrong[3] = INT64_MAX;
	wrong[4] = UINT64_MAX;
	for (size_t i = 0; i < COUNT(wrong); i++) {
		struct agent_event v;

		CHECK(agent_send_kill_tree(&agent, 5, wrong[i], &e) == 0);
		v = held_hear(AGENT_TREE_DEAD);
		CHECK(v.handle == 5 && v.flags == AGENT_NOT_KNOWN);
	}
	CHECK(held_processes() == 2);
	held_end_cell();
}

/* The asker goes in the middle of it. The next one is not told of what is no program, and what was
 * begun is ended. */
static void a_mark_is_killed_without_the_asker(void)
{
	uint64_t mark;

	held_make_cell(64);
	held_linger();
	mark = leave_daemon("bomb() { bomb | bomb & }; bomb >/dev/null 2>&1; exit 0");
	held_sleep(500);
	CHECK(held_processes() > 1);
	CHECK(agent_send_kill_tree(&agent, 77, mark, &e) == 0);
	held_reconnect();
	(void)held_hear(AGENT_SYNCED);
	held_wait_processes(1);
	CHECK(held_is_silent(50));
	CHECK(agent_send_kill_tree(&agent, 77, 0, &e) == 0);
	CHECK(held_hear(AGENT_TREE_DEAD).flags == AGENT_NOT_KNOWN); /* freed */
	held_end_cell();
}

static void several_at_once(void)
{
	unsigned dead = 0, exited = 0;

	held_make_cell(64);
	for (uint32_t i = 1; i <= 10; i++)
		(void)held_spawn(i, "(setsid sleep 1000 &); sleep 1000; exit 1", AGENT_HOLD, 0,
				 NULL);
	held_sleep(300);
	for (uint32_t i = 1; i <= 9; i++)
		CHECK(agent_send_kill_tree(&agent, i, 0, &e) == 0);
	while (dead < 9) {
		struct agent_event v;
		enum agent_type type;

		CHECK(agent_next(&agent, WAIT_MS, &type, &v, &e) == 1);
		exited += type == AGENT_EXITED;
		dead += type == AGENT_TREE_DEAD && v.flags == 0;
	}
	CHECK(exited == 9);
	held_wait_processes(4);
	held_end_cell();
}

/* In the middle of it, the one who asked is gone: it goes on. */
static void it_goes_on_without_the_asker(void)
{
	held_make_cell(64);
	held_linger();
	(void)held_spawn(1, "bomb() { bomb | bomb & }; bomb; read x", AGENT_HOLD, 0, NULL);
	held_sleep(500);
	CHECK(agent_send_kill_tree(&agent, 1, 0, &e) == 0);
	held_disconnect();
	held_sleep(1000);
	held_connect(NULL);
	(void)held_hear(AGENT_READY);
	CHECK(held_hear(AGENT_HELD).signal == SIGKILL);
	(void)held_hear(AGENT_SYNCED);
	held_wait_processes(1);
	held_end_cell();
}

/* All of it with what a locked PID 1 may do. */
static void in_the_locked_profile_too(void)
{
	int fds[2];

	held_locked = true;
	held_make_cell(64);
	held_linger();
	(void)held_spawn(2, "stty -echo; read x; echo got $x", AGENT_HOLD | AGENT_TTY, 0, NULL);
	(void)held_spawn(1, "(setsid sleep 1000 &); bomb() { bomb | bomb & }; bomb; read x",
			 AGENT_HOLD, 0, NULL);
	held_sleep(500);
	kill_tree(true);
	held_wait_processes(2);
	CHECK(agent_send_forget(&agent, 1, &e) == 0);
	held_reconnect();
	CHECK(held_hear(AGENT_HELD).handle == 2);
	held_take_fds(fds, 2);
	(void)held_hear(AGENT_SYNCED);
	held_type(fds[0], "word\n");
	held_expect(fds[1], "got word");
	CHECK(held_hear(AGENT_EXITED).exit_code == 0);
	held_end_cell();
}

#define TREE(i)                    \
	static void tree_##i(void) \
	{                          \
		kills(i);          \
	}
TREE(0)
TREE(1)
TREE(2)
TREE(3)
TREE(4)
TREE(5)
TREE(6)
TREE(7)
TREE(8)
TREE(9)
TREE(10)
TREE(11)
static void (*const tree_tests[])(void) = { tree_0, tree_1, tree_2, tree_3, tree_4,  tree_5,
					    tree_6, tree_7, tree_8, tree_9, tree_10, tree_11 };

int main(void)
{
	static const struct test others[] = {
		{ "what was forgotten is not touched", what_was_forgotten_is_not_touched },
		{ "a timeout kills the tree", a_timeout_kills_the_tree },
		{ "it is answered for nobody", it_is_answered_for_nobody },
		{ "what was forgotten is killed by its mark",
		  what_was_forgotten_is_killed_by_its_mark },
		{ "marks do not fill the table", marks_do_not_fill_the_table },
		{ "a mark that was never given is nobody's",
		  a_mark_that_was_never_given_is_nobodys },
		{ "a mark is killed without the asker", a_mark_is_killed_without_the_asker },
		{ "several at once", several_at_once },
		{ "it goes on without the asker", it_goes_on_without_the_asker },
		{ "in the locked profile too", in_the_locked_profile_too },
	};
	struct test tests[COUNT(trees) + COUNT(others)];

	_Static_assert(COUNT(trees) == COUNT(tree_tests), "one function for each tree");
	for (size_t i = 0; i < COUNT(trees); i++)
		tests[i] = (struct test){ trees[i].name, tree_tests[i] };
	memcpy(tests + COUNT(trees), others, sizeof(others));
	return test_run_all(tests, COUNT(tests));
}
