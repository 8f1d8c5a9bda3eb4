#include "front/mcpservers/server_link.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "daemon/tenant/event_log.h"
#include "daemon/tenant/tenant.h"
#include "front/mcpservers/kept_pins.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/list.h"
#include "lib/base/log.h"
#include "lib/base/str.h"
#include "lib/mcp/client/peer.h"

/* ---- tools without values of secrets */

#define PIECE ((size_t)16 << 10)

/* The schema of a tool whose definition cannot be shown. */
static const char nothing[] = "\"inputSchema\":{\"type\":\"object\"}";

/* A name cannot be masked: the model would call another one. */
static bool name_has_value(const struct listed_tool *t, const struct session *s)
{
	char name[sizeof(t->name)];

	str_copy(name, t->name);
	session_redact(s, name);
	return strcmp(name, t->name) != 0;
}

/* Masking takes no room: the text stays where it is. */
static void check_rest(struct listed_tool *t)
{
	struct buf text = BUF_INIT(TOOL_DEFINITION_MAX + 2);
	size_t n = strlen(t->rest);

	if (tool_schema(t, &text).kind != JSON_READ_OBJECT && n >= sizeof(nothing) - 1)
		memcpy(t->rest, nothing, sizeof(nothing));
	buf_release(&text);
}

/* The list may be freed at any time: each definition is in it once. */
static void masked_tools_keep(struct tool_masking *w, struct tool_list *l)
{
	struct listed_tool t = l->tools[w->at];

	l->tools[w->at++].rest = NULL;
	l->tools[w->kept++] = t;
}

/* The next tool, or a part of it. Return how many bytes it has masked. */
static size_t mask_some(struct tool_masking *w, struct tool_list *l, const struct session *s,
			size_t max)
{
	const struct mask *m = session_mask(s);
	struct listed_tool *t = &l->tools[w->at];
	size_t before = w->work.at, n = strlen(t->rest);

	if (before == 0 && name_has_value(t, s)) {
		free(t->rest);
		t->rest = NULL;
		l->dropped++;
		w->at++;
		return sizeof(t->name);
	}
	w->work.places = 0;
	if (n > 0 && !mask_work_step(m, &w->work, (uint8_t *)t->rest, n, max))
		return max;
	check_rest(t);
	masked_tools_keep(w, l);
	return n - before + sizeof(t->name);
}

bool masked_tools_piece(struct tool_masking *w, struct tool_list *l, const struct session *s)
{
	const struct mask *m = session_mask(s);
	size_t left = m == NULL || mask_turn(m) > PIECE ? PIECE : mask_turn(m);

	while (m != NULL && left > 0 && w->at < l->n) {
		size_t n = mask_some(w, l, s, left);

		left -= n < left ? n : left;
	}
	if (m != NULL && w->at < l->n)
		return false;
	while (w->at < l->n) /* the mask is gone */
		masked_tools_keep(w, l);
	l->n = w->kept;
	masked_tools_release(w);
	return true;
}

void masked_tools_release(struct tool_masking *w)
{
	mask_work_release(&w->work);
}

/* ---- the link
 *
 * server_link_step() moves the link on, each time that the timer fires: session usable, program
 * running, connected, tools listed. Each loss of the connection begins again at the first missing
 * step. */

#define GATEWAY "/opt/cordon/bin/mcp-gateway"
/* The column `client` of its execution: so another daemon finds it, and knows its token. */
#define MARK "mcp-gateway "
#define PORT 50006
#define LOOK_MS 100    /* until it is connected */
#define SECOND_MS 1000 /* after that */
#define AGAIN_MS 5000  /* between two starts of a program that ends */
#define LOSSES_MAX 6   /* up to which the wait for the next connection doubles */
#define FIRST_STARTS 1 /* of a server without any success */
#define SETUP_MS 60000
#define READ_SIZE 65536
#define OUT_MAX (2U << 20)     /* what waits to be sent */
#define SMALL (64U << 10)      /* an uncounted part of it */
#define RESULTS_MAX (2U << 20) /* of results that wait: then nothing is read */
/* A gateway sends requested answers, and few late ones. A sender of more is no gateway. */
#define NOISE_MAX 1000
#define NOISE_BYTES_MAX (8U << 20)

static void wait_ms(struct server_link *k, uint64_t ms)
{
	loop_timer_set(k->loop, &k->timer, loop_now_ns(k->loop) + ms * CLOCK_MS);
}

/* From here on the link is failed for good. on_news tells servers_part.c. */
static void server_link_fail(struct server_link *k, const char *why)
{
	struct err e;

	(void)err_set(&e, ERR_SYSTEM, "server %s: %s", k->spec.name, why);
	err_sanitize(&e);
	str_copy(k->failure, e.msg);
	k->on_news(k);
}

/* ---- what waits in the peer, counted as bodies of requests are */

/* Only more than SMALL: a link always works. */
static bool may_wait(struct peer *p, size_t n)
{
	struct server_link *k = p->arg;
	size_t more = n <= SMALL || n <= k->counted ? 0 : n - k->counted;

	if (more == 0)
		return true;
	k->counted_for = session_tenant(k->session);
	if (!tenant_hold(session_core(k->session), k->counted_for, more))
		return false;
	k->counted += more;
	return true;
}

/* Fewer bytes may wait now. */
static void server_link_recount(struct server_link *k)
{
	size_t n = k->peer.in.len + k->peer.out.len;

	n = n <= SMALL ? 0 : n;
	if (n >= k->counted)
		return;
	tenant_let_go(session_core(k->session), k->counted_for, k->counted - n);
	k->counted = n;
}

/* ---- the connection
 *
 * A connection begins with a proof that mcp-gateway knows the token. Bytes are then read in jobs of
 * the tenant, and written as the socket has room. */

/* All calls at the peer end with why. Safe if there is no connection. */
static void server_link_disconnect(struct server_link *k, const char *why)
{
	loop_remove(k->loop, &k->ready);
	if (k->session != NULL) {
		core_job_cancel(session_core(k->session), &k->reading);
		core_job_cancel(session_core(k->session), &k->masking);
	}
	masked_tools_release(&k->page);
	dial_cancel(&k->dial);
	k->unwatched = false;
	k->fd = -1;
	k->proving = false;
	peer_lost(&k->peer, why);
	server_link_recount(k);
}

/* A server that ends every connection is connected to ever less often. */
static void server_link_lose(struct server_link *k, const char *why)
{
	server_link_disconnect(k, why);
	wait_ms(k, (uint64_t)LOOK_MS << k->losses);
	if (k->losses < LOSSES_MAX)
		k->losses++;
}

/* Too many results wait for masking. The peer is not read until some have left. */
static bool is_full(const struct server_link *k)
{
	return k->waiting > RESULTS_MAX;
}

/* Asks epoll only for events that can be handled now. */
static void server_link_watch(struct server_link *k)
{
	bool reads = !is_full(k) && k->reading.link == NULL;
	uint32_t events = (reads ? EPOLLIN : 0) | (k->peer.out.len > 0 ? EPOLLOUT : 0);
	struct err e;

	if (!k->unwatched || is_full(k)) {
		loop_modify(k->loop, &k->ready, events);
		return;
	}
	/* Out of memory: the next look at the link tries it again. */
	k->unwatched = loop_add(k->loop, &k->ready, k->fd, events, &e) < 0;
}

void server_link_hold(struct server_link *k, struct link_result *w, size_t n)
{
	*w = (struct link_result){ .of = k, .n = n };
	LIST_PUSH(&k->results, w);
	k->waiting += n;
}

static void forget_result(struct link_result *w)
{
	LIST_REMOVE(w);
	w->of->waiting -= w->n;
	w->of = NULL;
}

void server_link_let_go(struct link_result *w)
{
	struct server_link *k = w->of;
	bool was_full = k != NULL && is_full(k);

	if (k == NULL)
		return;
	forget_result(w);
	if (was_full && k->fd >= 0)
		server_link_watch(k);
}

void server_link_flush(struct server_link *k)
{
	struct buf *out = &k->peer.out;

	while (k->fd >= 0 && out->len > 0) {
		ssize_t n = send(k->fd, out->data, out->len, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		buf_consume(out, (size_t)n);
	}
	if (out->len == 0)
		buf_release(out);
	server_link_recount(k);
	if (k->fd >= 0)
		server_link_watch(k);
}

/* A short line on a new connection: it has room. */
static bool send_word(struct server_link *k, const char word[LINK_WORD + 1])
{
	char line[LINK_WORD + 2];

	(void)snprintf(line, sizeof(line), "%s\n", word);
	return send(k->fd, line, LINK_WORD + 1, MSG_DONTWAIT | MSG_NOSIGNAL) == LINK_WORD + 1;
}

/* Take bytes of the first line, and begin after the right one. Return how many it took. 0: the
 * listener is not mcp-gateway. */
static size_t take_greeting(struct server_link *k, const char *bytes, size_t n)
{
	char proof[LINK_WORD + 1];
	const size_t whole = 2 * LINK_WORD + 2;
	size_t taken = whole - k->ngreeting;

	taken = taken < n ? taken : n;
	memcpy(k->greeting + k->ngreeting, bytes, taken);
	k->ngreeting += taken;
	if (k->ngreeting < whole)
		return taken;
	link_proof(k->token, 'g', k->nonce, proof);
	if (!link_same(proof, k->greeting) || k->greeting[whole - 1] != '\n')
		return 0;
	link_proof(k->token, 'c', k->greeting + LINK_WORD + 1, proof);
	if (!send_word(k, proof))
		return 0;
	k->proving = false;
	peer_begin(&k->peer);
	return taken;
}

/* Unrequested messages cost as much as others, and no client waits for them. */
static bool is_noisy(const struct peer *p)
{
	return p->noise > NOISE_MAX ||
	       p->noise_bytes + (p->skipping ? p->skipped : 0) > NOISE_BYTES_MAX;
}

/* False: the connection was given up. */
static bool take_bytes(struct server_link *k, const char *bytes, size_t n)
{
	bool first = k->proving;
	size_t taken = first ? take_greeting(k, bytes, n) : 0;

	if (first && taken == 0) {
		log_warn("another program answers in the place of mcp-gateway",
			 "session_id=%s server=%s", session_row(k->session)->id, k->spec.name);
		server_link_lose(k, "another program answers in its place");
		return false;
	}
	peer_feed(&k->peer, bytes + taken, n - taken);
	if (k->peer.state == PEER_FAILED) {
		server_link_lose(k, k->peer.failure);
		return false;
	}
	if (is_noisy(&k->peer)) {
		log_warn("a gateway sends messages that were not asked for: its connection ends",
			 "session_id=%s server=%s", session_row(k->session)->id, k->spec.name);
		server_link_lose(k, "it sends messages that were not asked for");
		return false;
	}
	return true;
}

static void read_later(struct server_link *k)
{
	core_job_add(session_core(k->session), session_tenant(k->session), &k->reading);
}

/* One read, in the turns of the tenant: whatever its servers send, others are served between. It is
 * queued behind the tenant's other jobs each time. */
static bool on_piece(struct job *j)
{
	struct server_link *k = j->arg;
	static char bytes[READ_SIZE];
	ssize_t n;

	loop_note(k->loop, "MCP server");
	if (k->fd < 0)
		return false;
	n = is_full(k) ? -1 : recv(k->fd, bytes, sizeof(bytes), MSG_DONTWAIT);
	if (n == 0 || (n < 0 && !is_full(k) && errno != EINTR && errno != EAGAIN)) {
		server_link_lose(k, "its connection ended");
		return false;
	}
	if (n > 0 && !take_bytes(k, bytes, (size_t)n))
		return false;
	if (n > 0 || (!is_full(k) && errno == EINTR))
		read_later(k);
	server_link_flush(k);
	return false;
}

/* Input is read in a job. Output is written here. */
static void on_ready(struct loop_fd *f, uint32_t events)
{
	struct server_link *k = f->arg;

	if (is_full(k) && (events & (EPOLLHUP | EPOLLERR)) != 0) {
		/* epoll would report it in every turn. */
		loop_remove(k->loop, &k->ready);
		k->unwatched = true;
		return;
	}
	if ((events & ~(uint32_t)EPOLLOUT) != 0)
		read_later(k);
	server_link_flush(k);
}

/* Each attempt gets a new nonce. */
static void on_dialed(struct dial *d, int fd, const struct err *e)
{
	struct server_link *k = d->arg;
	struct err added;

	if (fd < 0 && e->code == ERR_UNSUPPORTED) {
		server_link_fail(
			k, "its session has no network at all; network \"deny\" refuses every "
			   "connection but can be reached");
		return;
	}
	if (fd < 0) {
		wait_ms(k, LOOK_MS);
		return;
	}
	k->fd = fd;
	if (loop_add(k->loop, &k->ready, fd, EPOLLIN, &added) < 0) {
		server_link_lose(k, added.msg);
		return;
	}
	k->proving = true;
	k->ngreeting = 0;
	k->dialed_ns = loop_now_ns(k->loop);
	link_random(k->nonce);
	if (send_word(k, k->nonce))
		wait_ms(k, SECOND_MS);
	else
		server_link_lose(k, "its connection ended");
}

/* ---- the program
 *
 * mcp-gateway runs as an execution of the server's session. It is found by its mark, so a new
 * daemon keeps the program that an old one has started. */

/* The token comes with it. */
static struct execution *find_program(struct server_link *k)
{
	for (struct execution *x = execution_next(k->session, NULL); x != NULL;
	     x = execution_next(k->session, x)) {
		const char *client = execution_row(x)->client;

		if (client == NULL || strncmp(client, MARK, strlen(MARK)) != 0 ||
		    strlen(client) != strlen(MARK) + LINK_WORD || execution_ended(x))
			continue;
		memcpy(k->token, client + strlen(MARK), sizeof(k->token));
		return x;
	}
	return NULL;
}

/* The token is in the program's environment and in its row. */
static int start_program(struct server_link *k, struct err *e)
{
	struct buf strings = BUF_INIT(SERVER_SPEC_TEXT_MAX + 512);
	char mark[sizeof(MARK) + LINK_WORD];
	struct execution_spec spec = { .argc = 3,
				       .envc = 1,
				       .user = "root",
				       .cwd = "/",
				       .background = true,
				       .text = MARK "--stdio",
				       .keep_text = true,
				       .client = mark };
	struct execution *x = NULL;

	link_random(k->token);
	(void)snprintf(mark, sizeof(mark), MARK "%s", k->token);
	buf_put(&strings, GATEWAY, sizeof(GATEWAY));
	buf_put(&strings, "--stdio", sizeof("--stdio"));
	buf_put(&strings, k->spec.gateway, strlen(k->spec.gateway) + 1);
	buf_put_text(&strings, LINK_TOKEN_VAR "=");
	buf_put(&strings, k->token, LINK_WORD + 1);
	spec.strings = (const char *)strings.data;
	spec.strings_len = strings.len;
	if (buf_check(&strings, e) == 0)
		x = execution_start(k->session, &spec, e);
	buf_release(&strings);
	k->started_ns = loop_now_ns(k->loop);
	k->starts++;
	return x == NULL ? -1 : 0;
}

/* False: there is none, and there will not be one soon. */
static bool keep_program(struct server_link *k)
{
	uint64_t now = loop_now_ns(k->loop);
	char why[160];
	struct err e;

	if (find_program(k) != NULL)
		return true;
	if (!k->was_ready && k->starts >= FIRST_STARTS) {
		(void)snprintf(why, sizeof(why),
			       "it could not be started: see the output of mcp-gateway in session "
			       "%s",
			       session_row(k->session)->id);
		server_link_fail(k, why);
		return false;
	}
	if (k->started_ns != 0 && now - k->started_ns < AGAIN_MS * CLOCK_MS)
		return false;
	if (start_program(k, &e) == 0)
		return true;
	server_link_fail(k, e.msg);
	return false;
}

/* ---- time
 *
 * The timer runs as long as the link does. */

/* A pause has ended the connection. A call of one of its known tools resumes the session. Until
 * then it stays paused. */
static bool stays_paused(const struct server_link *k)
{
	enum session_state state = session_row(k->session)->state;

	return k->peer.listed_at_ns != 0 && (state == SESSION_PAUSED || state == SESSION_PAUSING);
}

/* A link that has not failed always has a timer, a completion or a dial to wait for. */
static void server_link_step(struct server_link *k)
{
	if (k->ended || k->failure[0] != '\0')
		return;
	if (k->proving && loop_now_ns(k->loop) > k->dialed_ns + SETUP_MS * CLOCK_MS) {
		server_link_lose(k, "mcp-gateway did not answer in time");
		return;
	}
	if (k->fd >= 0) {
		peer_tick(&k->peer);
		if (k->peer.state == PEER_FAILED) {
			server_link_lose(k, k->peer.failure);
			return;
		}
		server_link_flush(k);
		wait_ms(k, SECOND_MS);
		return;
	}
	if (completion_is_waiting(&k->use) || k->dial.call != NULL)
		return;
	if (stays_paused(k)) {
		wait_ms(k, SECOND_MS);
		return;
	}
	if (!session_use(k->session, NULL, &k->use))
		return; /* on_usable() */
	if (keep_program(k))
		dial_start(k->session, PORT, &k->dial);
	else
		wait_ms(k, SECOND_MS);
}

/* The session runs, or cannot for now. */
static void on_usable(struct completion *c, const struct err *e)
{
	struct server_link *k = c->arg;

	if (e == NULL)
		server_link_step(k);
	else if (!k->ended)
		wait_ms(k, SECOND_MS);
}

static void on_timer(struct loop_timer *t)
{
	server_link_step(t->arg);
}

/* ---- the peer
 *
 * lib/mcp/client calls these from within peer_feed() and peer_tick(). */

/* Into the events of the owner's session. */
static void report_changes(struct server_link *k, size_t n, const char *names)
{
	struct session *s = k->session;
	struct err e;

	log_warn("an MCP server changed tools", "session_id=%s server=%s tools=%s", k->spec.owner,
		 k->spec.name, names);
	if (event_log_append(session_core(s), NULL, tenant_row(session_tenant(s))->id,
			     k->spec.owner, "", "mcp.tools_changed", &e,
			     "server\t%s\ntools\t%s\ncount\t%zu\nverdict\t%s\n", k->spec.name,
			     names, n, k->spec.strict ? "deny" : "allow") < 0)
		log_error("an event could not be written", "why=%s", e.msg);
}

/* Text of the server, before it gets into messages. */
static void on_words(struct peer *p, char *text)
{
	const struct server_link *k = p->arg;

	session_redact(k->session, text);
}

/* True: there is more of the page. */
static bool on_masking(struct job *j)
{
	struct server_link *k = j->arg;

	loop_note(k->loop, "tools of an MCP server");
	if (!masked_tools_piece(&k->page, &k->peer.fresh, k->session))
		return true;
	peer_page_done(&k->peer);
	server_link_flush(k);
	return false;
}

/* Without a mask the page is done at once. */
static void on_page(struct peer *p, size_t first)
{
	struct server_link *k = p->arg;

	k->page = (struct tool_masking){ .at = first, .kept = first };
	if (session_mask(k->session) == NULL)
		peer_page_done(p);
	else
		core_job_add(session_core(k->session), session_tenant(k->session), &k->masking);
}

/* The list is complete and masked. Its pins are in the store before it is used. */
static void on_tools(struct peer *p)
{
	struct server_link *k = p->arg;
	char names[TOOL_PINS_NAMED];
	size_t changed = tool_pins_see(&k->pins, &p->tools, k->spec.strict, names);

	kept_pins_write(session_core(k->session), session_row(k->session)->id, &k->pins);
	if (changed > 0)
		report_changes(k, changed, names);
	k->was_ready = true;
	k->losses = 0;
	k->on_news(k);
}

static void on_failed(struct peer *p)
{
	(void)p; /* the caller of peer_feed() and peer_tick() sees it */
}

/* ---- from its creation to its end
 *
 * servers_part.c makes, ends and frees links. A link never frees itself. */

struct server_link *server_link_new(struct loop *l, struct server_spec *spec)
{
	static const struct peer_events events = { on_tools, on_failed, on_page, on_words,
						   may_wait };
	struct server_link *k = calloc(1, sizeof(*k));

	if (k == NULL)
		return NULL;
	k->spec = *spec;
	*spec = (struct server_spec){ 0 };
	k->loop = l;
	k->fd = -1;
	k->dial = (struct dial){ .on_done = on_dialed, .arg = k };
	k->ready = (struct loop_fd){ .fd = -1, .on_ready = on_ready, .arg = k };
	k->reading = (struct job){ .on_piece = on_piece, .arg = k };
	k->masking = (struct job){ .on_piece = on_masking, .arg = k };
	k->timer = (struct loop_timer){ .on_expire = on_timer, .arg = k };
	k->use = (struct completion){ .on_done = on_usable, .arg = k };
	peer_init(&k->peer, &events, k);
	k->peer.name = k->spec.name;
	k->peer.modern_first = true;
	k->peer.setup_ms = SETUP_MS;
	k->peer.line_max = PEER_LINK_MAX;
	k->peer.values_max = PEER_LINK_VALUES_MAX;
	k->peer.out.cap = OUT_MAX;
	return k;
}

void server_link_start(struct server_link *k)
{
	wait_ms(k, 0);
}

void server_link_cell_gone(struct server_link *k)
{
	k->started_ns = 0;
}

/* The pins go with the session. */
void server_link_end(struct server_link *k, const char *why)
{
	if (k->ended)
		return;
	k->ended = true;
	loop_timer_cancel(k->loop, &k->timer);
	completion_cancel(&k->use);
	server_link_disconnect(k, why);
	kept_pins_delete(session_core(k->session), session_row(k->session)->id);
	if (k->failure[0] == '\0')
		server_link_fail(k, why);
}

/* Results that wait forget the link. */
void server_link_free(struct server_link *k)
{
	k->ended = true;
	loop_timer_cancel(k->loop, &k->timer);
	completion_cancel(&k->use);
	completion_cancel(&k->made);
	server_link_disconnect(k, "the server ends");
	while (k->results != NULL)
		forget_result(k->results);
	peer_release(&k->peer);
	tool_pins_release(&k->pins);
	free(k->spec.gateway);
	free(k);
}

bool server_link_is_starting(const struct server_link *k)
{
	bool usable = k->peer.state == PEER_READY || k->peer.state == PEER_LISTING;

	return k->failure[0] == '\0' && !stays_paused(k) && (!usable || k->peer.listed_at_ns == 0);
}

const char *server_link_state(const struct server_link *k)
{
	if (k->failure[0] != '\0')
		return "failed";
	return server_link_is_starting(k) ? "starting" : "ready";
}
