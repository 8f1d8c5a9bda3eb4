/* Goal: a guest that does not answer, or is over, is told to the server, once, and to the next one
 * if there is none. */
#include <poll.h>
#include <sys/socket.h>

#include "shim_bed.h"

static struct err e;

/* Told when it does not answer, and when it does again; a server that comes in between is told,
 * too. */
static void a_guest_that_does_not_answer_is_told(void)
{
	bed_start();
	bed_boot("P");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	for (int i = 0; i < 3; i++) {
		(void)guest_hear(GUEST_PING);
		guest_say(GUEST_PONG, 0, NULL, 0);
	}
	(void)guest_hear(GUEST_PING);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	bed_reconnect();
	(void)bed_hear(AGENT_SYNCED);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	guest_say(GUEST_PONG, 0, NULL, 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_ALIVE);
	(void)guest_hear(GUEST_PING);
	bed_end();
}

/* The same if it stops reading in the middle of a request, so that no PING can be sent. */
static void a_guest_that_stops_reading_is_told(void)
{
	static char strings[1U << 20];
	struct pollfd begun = { .events = POLLIN };
	const struct agent_spawn s = { .handle = 50,
				       .flags = AGENT_HOLD,
				       .argc = 1,
				       .user = "u",
				       .cwd = "",
				       .strings = strings,
				       .strings_len = sizeof(strings) };

	memset(strings, 'x', sizeof(strings) - 1);
	bed_start();
	bed_boot("P");
	begun.fd = bed_guest;
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	(void)bed_hear(AGENT_BOOTED);
	(void)guest_hear(GUEST_PING);
	CHECK(agent_send_spawn(&agent, &s, &e) == 0);
	while (poll(&begun, 1, 0) == 0)
		CHECK(bed_is_silent(10)); /* sends the rest of it */
	guest_say(GUEST_PONG, 0, NULL, 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_UNRESPONSIVE);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

static void the_end_of_a_guest_is_told(void)
{
	struct agent_event v;

	bed_begin();
	(void)close(bed_guest);
	bed_guest = -1;
	v = bed_hear(AGENT_GUEST);
	CHECK(v.stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* One that has run and ends while RESUME waits for it: the answer does not say that it is over. */
static void the_end_of_a_guest_that_is_resumed_is_told(void)
{
	struct boot_request r = bed_request;

	r.flags = r.fds = 0;
	bed_begin();
	CHECK(agent_send_resume(&agent, &r, &e) == 0);
	(void)guest_hear(GUEST_HELLO);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(bed_hear(AGENT_BOOTED).sys != 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* An engine whose end takes no more bytes: nothing is tried again and again. */
static void an_end_that_does_not_read_is_over(void)
{
	bed_begin();
	CHECK(shutdown(bed_guest, SHUT_RD) == 0);
	CHECK(agent_send_stat(&agent, &e) == 0);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

/* How often this is in the text of the event. */
static int count_in_text(const struct agent_event *v, const char *wanted)
{
	char text[BOOT_TEXT_MAX + 1];
	int n = 0;

	agent_read_text(&agent, v, text, sizeof(text));
	for (const char *at = text; (at = strstr(at, wanted)) != NULL; at++)
		n++;
	return n;
}

/* A kernel that took its timer for broken: the next boot may well work. The request is answered
 * once, for the boot that did. */
static void a_kernel_without_a_timer_is_booted_again(void)
{
	int fds[3];

	bed_start();
	bed_boot("2 cordon-init: boot: " GUEST_NO_TIMER "\n");
	(void)guest_greet();
	guest_say_event(AGENT_SYNCED, &bed_nothing, NULL, 0);
	CHECK(bed_hear(AGENT_BOOTED).sys == 0);
	CHECK(bed_is_silent(200));
	bed_start_program(7, 1, fds);
	bed_end();
}

/* Three times, not for ever. */
static void a_kernel_that_never_has_a_timer_is_told(void)
{
	struct agent_event v;

	bed_start();
	bed_boot("9 cordon-init: boot: " GUEST_NO_TIMER "\n");
	v = bed_hear(AGENT_BOOTED);
	CHECK(v.sys != 0 && v.stage == BOOT_AT_KERNEL);
	CHECK(count_in_text(&v, GUEST_NO_TIMER) == 3);
	CHECK(guest_is_silent(200));
	bed_end();
}

static void another_end_of_a_boot_is_told_at_once(void)
{
	static const char why[] = "mount /dev/vda: No such device";
	struct agent_event v;

	bed_start();
	bed_boot("1 cordon-init: boot: mount /dev/vda: No such device\n");
	v = bed_hear(AGENT_BOOTED);
	CHECK(v.sys != 0 && v.stage == BOOT_AT_KERNEL);
	CHECK(count_in_text(&v, why) == 1);
	CHECK(guest_is_silent(200));
	bed_end();
}

/* Without a server: the shim keeps it until there is one. */
static void the_end_of_a_guest_is_told_later(void)
{
	int old;

	bed_begin();
	old = agent.sock;
	CHECK(shutdown(old, SHUT_RDWR) == 0);
	(void)close(bed_guest);
	bed_guest = -1;
	CHECK(!bed_is_over(3000));
	bed_reconnect();
	(void)bed_hear(AGENT_SYNCED);
	CHECK(bed_hear(AGENT_GUEST).stage == BOOT_GUEST_BROKE);
	CHECK(bed_is_over(WAIT_MS));
	bed_end();
}

TEST_MAIN({ "a guest that does not answer is told", a_guest_that_does_not_answer_is_told },
	  { "a guest that stops reading is told", a_guest_that_stops_reading_is_told },
	  { "the end of a guest is told", the_end_of_a_guest_is_told },
	  { "the end of a guest that is resumed is told",
	    the_end_of_a_guest_that_is_resumed_is_told },
	  { "an end that does not read is over", an_end_that_does_not_read_is_over },
	  { "a kernel without a timer is booted again", a_kernel_without_a_timer_is_booted_again },
	  { "a kernel that never has a timer is told", a_kernel_that_never_has_a_timer_is_told },
	  { "another end of a boot is told at once", another_end_of_a_boot_is_told_at_once },
	  { "the end of a guest is told later", the_end_of_a_guest_is_told_later })
