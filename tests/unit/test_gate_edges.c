/* Goal: what waits, is kept or is shared in a process of cordon-egress has its bound for all
 * sessions, and one beyond it is refused, or takes the place of the oldest. */
#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "edge.h"

#include "egress/control/access_record.h"
#include "lib/packages/advisories.h"
#include "egress/control/advisory_list.h"
#include "egress/packages/cache_private.h"
#include "lib/base/clock.h"
#include "egress/flow/flow.h"
#include "egress/flow/idle_conns.h"
#include "egress/flow/owner_query.h"
#include "egress/packages/package_apt.h"
#include "egress/packages/package_download.h"
#include "egress/control/resource_share.h"

static struct egress egress;

static void begin(void)
{
	struct err e;

	egress.loop = loop_new(&e);
	CHECK(egress.loop != NULL);
	resource_share_init(&egress.shares, egress.loop, 4096, 1);
}

static void stop(struct loop_timer *t)
{
	loop_stop(egress.loop);
}

/* Turns of the loop until nothing is left to be done at once. */
static void run(void)
{
	struct loop_timer end = { .on_expire = stop };
	struct err e;

	loop_timer_set(egress.loop, &end, clock_now_ns() + 20 * CLOCK_MS);
	CHECK(loop_run(egress.loop, &e) == 0);
}

static void pair(int ret[2])
{
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ret) == 0);
}

static unsigned drain(int sock)
{
	char packet[CACHE_PACKET_MAX];
	unsigned n = 0;

	while (recv(sock, packet, sizeof(packet), MSG_DONTWAIT) > 0)
		n++;
	return n;
}

/* ---- the package cache */

static void messages_that_wait_for_the_cache(void)
{
	char path[2001] = { 0 };
	const struct cache_msg m = { .type = CACHE_DROP, .id = 1, .key = { "s", "r", path } };
	const size_t most = (size_t)8 << 20;
	unsigned taken = 0, sent = 0;
	struct cache_link *l;
	size_t len;
	struct err e;
	int s[2];

	begin();
	memset(path, 'p', sizeof(path) - 1);
	pair(s);
	cache_link_open(&egress, s[0]);
	l = cache_link_of(&egress);
	CHECK(cache_link_send(l, &m, -1, &e) == 0);
	len = l->channel.queued;
	for (taken = 1; taken < 100000 && cache_link_send(l, &m, -1, &e) == 0; taken++)
		;
	CHECK(e.code == ERR_LIMIT && taken == most / len);
	CHECK(l->channel.queued == taken * len && l->channel.queued + len > most);
	for (unsigned i = 0; i < 100000 && sent < taken; i++) {
		run();
		sent += drain(s[1]);
	}
	CHECK(sent == taken && l->channel.queued == 0);
	(void)close(s[1]);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
}

static void requests_at_the_cache(void)
{
	static struct cache_call calls[2 * CACHE_REQUESTS_MAX];
	const struct cache_key key = { "s", "r", "/p" };
	struct cache_link *l;
	unsigned sent = 0;
	int s[2];

	begin();
	pair(s);
	cache_link_open(&egress, s[0]);
	l = cache_link_of(&egress);
	for (unsigned i = 0; i < COUNT(calls); i++) {
		char tenant[16];

		(void)snprintf(tenant, sizeof(tenant), "t%u", i);
		calls[i].on_done = on_found;
		cache_find(&egress, tenant, &calls[i], &key);
	}
	for (unsigned i = 0; i < 20; i++) {
		run();
		sent += drain(s[1]);
	}
	CHECK(l->ncalls == CACHE_REQUESTS_MAX && sent == CACHE_REQUESTS_MAX);
	for (unsigned i = 0; i < COUNT(calls); i++)
		cache_call_cancel(&calls[i]);
	(void)close(s[1]);
}

/* ---- downloads that others wait for */

static void downloads_of_all(void)
{
	static struct egress_session sessions[PACKAGE_DOWNLOADS_MAX];
	static struct package_follow follows[PACKAGE_DOWNLOADS_MAX + 1];
	unsigned n = 0;

	begin();
	/* Each session is another tenant's, and leads one. */
	for (unsigned i = 0; i < PACKAGE_DOWNLOADS_MAX; i++) {
		char key[16], tenant[16];
		bool alone;

		(void)snprintf(key, sizeof(key), "k%u", i);
		(void)snprintf(tenant, sizeof(tenant), "t%u", i);
		sessions[i].egress = &egress;
		CHECK(resource_share_join(&egress.shares, &sessions[i].share, tenant) == 0);
		n += package_download_join(&sessions[i], &follows[i], key, &alone);
	}
	CHECK(n == PACKAGE_DOWNLOADS_MAX);
	{
		struct egress_session another = { .egress = &egress };
		struct package_follow *f = &follows[PACKAGE_DOWNLOADS_MAX];
		bool alone = false;

		CHECK(resource_share_join(&egress.shares, &another.share, "another") == 0);
		CHECK(!package_download_join(&another, f, "one more", &alone) && alone);
		package_download_end(&follows[0], false);
		CHECK(package_download_join(&another, f, "one more", &alone));
	}
}

static void documents_of_a_session(void)
{
	struct resource_share_tenant tenant = { 0 };
	struct resource_share s = { .all = &egress.shares, .tenant = &tenant };

	begin();
	CHECK(resource_share_documents(&s, 0, RESOURCE_SHARE_DOCUMENTS_MAX));
	CHECK(!resource_share_documents(&s, RESOURCE_SHARE_DOCUMENTS_MAX,
					RESOURCE_SHARE_DOCUMENTS_MAX + 1));
}

/* ---- indexes of apt */

static bool is_remembered(size_t len)
{
	const struct package_apt_of of = { "t", "s", "apt https://r.test:443/" };
	struct package_apt_pick picks[PACKAGE_APT_PICKS];
	struct edge_text release = { 0 }, index = { 0 };
	size_t n;

	egress.package_apt = NULL;
	edge_put(&release, "/dists/s/InRelease");
	edge_put(&index, "/dists/s/");
	edge_put_times(&index, "c", len - index.len - strlen("/binary-amd64"));
	edge_put(&index, "/binary-amd64");
	CHECK(index.len == len);
	edge_put(&index, "/Packages.gz");
	package_apt_note(&egress, &of, release.p, NULL);
	package_apt_note(&egress, &of, index.p, NULL);
	n = package_apt_pick(&egress, &of, "/pool/a/aa/aa_1_amd64.deb", picks);
	CHECK(n == 0 || strlen(picks[0].index) == len);
	free(release.p);
	free(index.p);
	return n > 0;
}

static void paths_of_apt(void)
{
	begin();
	CHECK(is_remembered(PACKAGE_APT_PATH_MAX - 1));
	CHECK(!is_remembered(PACKAGE_APT_PATH_MAX));
}

/* ---- the list of malicious packages */

/* A list of this size in sealed memory, of which only the first line and the last byte are there.
 */
static int list_of(off_t size)
{
	static const char head[] = ADVISORIES_MAGIC "1 1\n";
	int fd = memfd_create("advisories", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	CHECK(pwrite(fd, head, sizeof(head) - 1, 0) == sizeof(head) - 1);
	CHECK(pwrite(fd, "\n", 1, size - 1) == 1);
	CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW) == 0);
	return fd;
}

static void size_of_the_advisories(void)
{
	advisory_list_set(list_of((off_t)ADVISORIES_MAX + 1));
	CHECK(advisory_list() == NULL);
	advisory_list_set(list_of((off_t)ADVISORIES_MAX));
	CHECK(advisory_list() != NULL);
}

/* ---- who made a connection */

static void questions_without_answer(void)
{
	static struct egress_session session;
	const struct ip ip = { { 1 } };
	struct flow f = { .session = &session };
	unsigned asked = 0;
	int s[2];

	begin();
	session.egress = &egress;
	session.owners.sock = -1;
	session.owners.watch.fd = -1;
	pair(s);
	owner_query_open(&session, s[0]);
	while (asked < 1000 && owner_query_ask(&f, &ip, 1, &ip, 2)) {
		asked++;
		CHECK(drain(s[1]) == 1);
	}
	CHECK(asked == EGRESS_SESSION_FLOWS_MAX && f.owner.result == OWNER_TOO_MANY);
	owner_query_close(&session);
	(void)close(s[1]);
}

/* ---- connections that are kept */

static bool is_open(int peer)
{
	char byte;

	return recv(peer, &byte, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

static void connections_that_are_kept(void)
{
	static struct egress_session session;
	const struct upstream_key key = { .port = 80, .host = "a.test" };
	const struct ip at = { { 0 } };
	int peers[IDLE_CONNS_MAX + 1];
	struct idle_conns *kept;
	struct err e;

	begin();
	CHECK(resource_share_join(&egress.shares, &session.share, "t") == 0);
	kept = idle_conns_new(egress.loop, &session.share);
	CHECK(kept != NULL);
	for (unsigned i = 0; i < COUNT(peers); i++) {
		struct upstream *up;
		int s[2];

		CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
		up = upstream_new(egress.loop, &key, s[0], &at, &e);
		CHECK(up != NULL);
		peers[i] = s[1];
		idle_conns_keep(kept, up);
		/* All are open up to the bound; then the oldest is closed. */
		CHECK(is_open(peers[0]) == (i < IDLE_CONNS_MAX));
	}
	for (unsigned i = 1; i < COUNT(peers); i++)
		CHECK(is_open(peers[i]));
	idle_conns_free(kept);
	for (unsigned i = 0; i < COUNT(peers); i++)
		(void)close(peers[i]);
}

/* ---- records */

static int on_cordond(struct channel *c, const struct channel_got *m, struct err *e)
{
	return 0;
}

static void on_cordond_end(struct channel *c, enum channel_end how, const char *why)
{
}

/* Sends the record of a request with a path of n bytes to the socket. Its length, and how much of
 * the path is in it. */
static size_t record_of(struct egress_session *session, int sock, size_t n, size_t *ret_path)
{
	static char frame[2 * EGRESS_RECORD_MAX];
	struct access_record r = { .kind = ACCESS_RECORD_REQUEST,
				   .start_ns = clock_now_ns(),
				   .name = "a.test",
				   .method = "GET",
				   .query = "q",
				   .allowed = true };
	struct edge_text path = { 0 };
	const char *at;
	ssize_t len;

	r.end_ns = r.start_ns;
	edge_put_times(&path, "/", n);
	r.path = path.p;
	access_record_send(session, &r);
	channel_send_now(&egress.out.channel);
	len = recv(sock, frame, sizeof(frame), MSG_DONTWAIT);
	CHECK(len > EGRESS_HEAD && egress.out.channel.queued == 0);
	at = memmem(frame, (size_t)len, "\"path\":\"", 8);
	CHECK(at != NULL);
	*ret_path = strcspn(at + 8, "\"");
	free(path.p);
	return (size_t)len - EGRESS_HEAD;
}

/* A record that is as long as one may be is whole; of a longer one the beginning of the path is
 * left. */
static void records_that_are_too_long(void)
{
	static struct egress_session session;
	static const struct channel_rules rules = { .peer = "cordond", .framed = true };
	struct err e;
	int s[2];
	size_t path, len, most = 0, n;

	begin();
	session.egress = &egress;
	session.owners.sock = -1;
	channel_init(&egress.out.channel, egress.loop, &rules);
	egress.out.channel.on_message = on_cordond;
	egress.out.channel.on_end = on_cordond_end;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, s) == 0);
	CHECK(channel_attach(&egress.out.channel, s[0], &e) == 0);
	n = EGRESS_RECORD_MAX - record_of(&session, s[1], 1, &path) - 64;
	for (;; n++) {
		len = record_of(&session, s[1], n, &path);
		if (path != n)
			break;
		most = len;
	}
	CHECK(path == 1000);
	CHECK(most == EGRESS_RECORD_MAX || most == EGRESS_RECORD_MAX - 1);
	CHECK(session.records_lost == 0);
}

TEST_MAIN({ "messages that wait for the cache", messages_that_wait_for_the_cache },
	  { "requests at the cache", requests_at_the_cache },
	  { "downloads of all", downloads_of_all },
	  { "documents of a session", documents_of_a_session }, { "paths of apt", paths_of_apt },
	  { "size of the advisories", size_of_the_advisories },
	  { "questions without answer", questions_without_answer },
	  { "connections that are kept", connections_that_are_kept },
	  { "records that are too long", records_that_are_too_long })
