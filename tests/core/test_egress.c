/* Goal: several processes of cordon-egress (egress_link.h). Sessions are spread over them; what a
 * process says of a session of another one is dropped and counted, and its channel stays.
 *
 * The test holds the other ends of both channels. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bed.h"
#include "lib/base/buf.h"
#include "daemon/session/session.h"
#include "daemon/egressctl/egress_link.h"
#include "daemon/egressctl/session_egress.h"
#include "daemon/egressctl/net_access.h"
#include "daemon/egressctl/net_state.h"
#include "lib/base/session_id.h"

#define SPREAD 4000U

static const char good[] =
	"{\"time_ms\":1,\"kind\":\"dns\",\"name\":\"a.example\",\"verdict\":\"deny\"}";
static int ends[BED_EGRESS]; /* the test's */

static void spread(void)
{
	for (unsigned n = 1; n <= SERVE_EGRESS_MAX; n++) {
		unsigned of[SERVE_EGRESS_MAX] = { 0 };
		char id[SESSION_ID_MAX];

		for (unsigned i = 0; i < SPREAD; i++) {
			session_id_make("", id);
			CHECK(egress_links_slot(id, n) < n);
			CHECK(egress_links_slot(id, n) == egress_links_slot(id, n));
			of[egress_links_slot(id, n)]++;
		}
		for (unsigned slot = 0; slot < n; slot++) /* some six standard deviations */
			CHECK(of[slot] > SPREAD / n * 3 / 4 && of[slot] < SPREAD / n * 5 / 4 + 1);
	}
}

static void connect_all(void)
{
	struct err e;

	for (unsigned slot = 0; slot < BED_EGRESS; slot++) {
		int both[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
		ends[slot] = both[0];
		CHECK(net_access_set_egress(bed.core, slot, both[1], &e) == 0);
	}
}

static void say_of(const char *id, unsigned slot, enum egress_type type, const char *text)
{
	uint8_t bytes[EGRESS_HEAD + 1024];
	size_t len = strlen(text);

	egress_msg_head(bytes, type, id, len);
	memcpy(bytes + EGRESS_HEAD, text, len);
	CHECK(write(ends[slot], bytes, EGRESS_HEAD + len) == (ssize_t)(EGRESS_HEAD + len));
}

static void say(unsigned slot, enum egress_type type, const char *text)
{
	say_of(session_row(bed.session)->id, slot, type, text);
}

static struct egress_links *links(void)
{
	return &net_access_of(bed.core)->egress;
}

static bool two_invalid(void)
{
	return links()->numbers.invalid == 2;
}

static bool one_recorded(void)
{
	return links()->numbers.records == 1 && links()->numbers.bytes_in == 10;
}

static void of_another_process(void)
{
	static const char counts[] =
		"{\"bytes_in\":10,\"bytes_out\":0,\"requests\":0,\"connections\":0}";
	unsigned own;

	bed_make(5000);
	bed_session();
	connect_all();
	CHECK(egress_links_up(links()) == BED_EGRESS);
	own = session_egress_link(bed.session)->slot;
	say(!own, EGRESS_RECORD, good);
	say(!own, EGRESS_COUNTS, counts);
	bed_until(two_invalid);
	CHECK(links()->numbers.records == 0 && links()->numbers.bytes_in == 0);
	say(own, EGRESS_RECORD, good);
	say(own, EGRESS_COUNTS, counts);
	bed_until(one_recorded);
	CHECK(egress_links_up(links()) == BED_EGRESS && links()->numbers.broken == 0);
	bed_delete();
	for (unsigned slot = 0; slot < BED_EGRESS; slot++)
		CHECK(close(ends[slot]) == 0);
	bed_end();
}

static bool one_is_up(void)
{
	return egress_links_up(links()) == 1;
}

static void no_such_process(void)
{
	struct err e;
	int both[2];

	bed_make(5000);
	bed_session();
	connect_all();
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
	CHECK(net_access_set_egress(bed.core, BED_EGRESS, both[1], &e) == -1);
	CHECK(fcntl(both[1], F_GETFD) == -1); /* it was taken over */
	CHECK(close(both[0]) == 0);
	CHECK(close(ends[0]) == 0);
	bed_until(one_is_up);
	CHECK(egress_link_up(&links()->links[1]) && !egress_links_any_hung(links()));
	bed_delete();
	CHECK(close(ends[1]) == 0);
	bed_end();
}

static const char turns[] = "{\"count\":10,\"sum_ns\":10,\"max_ns\":1,\"slowest_ns\":1,"
			    "\"slowest\":\"none\",\"buckets\":[10]}";

static bool counts_twenty(void)
{
	struct buf b = BUF_INIT(65536);
	bool found;

	egress_links_write_turns(links(), &b);
	found = strstr(buf_text(&b), "cordon_egress_loop_turn_seconds_count 20\n") != NULL;
	buf_release(&b);
	return found;
}

static bool both_counted(void)
{
	return links()->links[0].turns.turns.count == 10 &&
	       links()->links[1].turns.turns.count == 10;
}

static bool both_up(void)
{
	return egress_links_up(links()) == BED_EGRESS;
}

static void turns_of_all(void)
{
	struct err e;
	int both[2];

	bed_make(5000);
	bed_session();
	connect_all();
	say_of("", 0, EGRESS_TURNS, turns);
	say_of("", 1, EGRESS_TURNS, turns);
	bed_until(both_counted);
	CHECK(counts_twenty());
	CHECK(close(ends[0]) == 0);
	bed_until(one_is_up);
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) == 0);
	ends[0] = both[0];
	CHECK(net_access_set_egress(bed.core, 0, both[1], &e) == 0);
	bed_until(both_up);
	CHECK(links()->links[0].turns.turns.count == 0 && counts_twenty()); /* no step back */
	bed_delete();
	for (unsigned slot = 0; slot < BED_EGRESS; slot++)
		CHECK(close(ends[slot]) == 0);
	bed_end();
}

TEST_MAIN({ "sessions are spread over the processes", spread },
	  { "what a process says of a session of another", of_another_process },
	  { "one channel ends, and one that is not expected", no_such_process },
	  { "turns of all processes are counted together", turns_of_all })
