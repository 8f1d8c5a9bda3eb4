/* peer.h - the client's side of one MCP server: its requests, the meaning of its answers, and the
 * calls that wait for one. No I/O: the owner passes on the bytes that come (peer_feed()), sends the
 * bytes in `out`, and calls peer_tick() about once a second.
 *
 * Used by mcp-gateway for the programs that it starts, and by cordond for the cells of a session's
 * servers. The server is not trusted. Every begun call ends exactly once: by its answer, its
 * deadline, peer_lost(), or peer_cancel() (then without on_done). A malformed or unrequested
 * message is ignored and counted. Requests of the server are refused. Lengths, values, counts and
 * pages have bounds.
 *
 * Both eras of the protocol: `initialize` comes first, because servers of the older one may not
 * answer unknown requests, and `server/discover` if it is refused. The owner can ask for the other
 * order. Callbacks must not free the peer or call peer_lost(). */
#pragma once

#include "lib/base/buf.h"
#include "lib/json/json_read.h"
#include "lib/mcp/client/tool_list.h"

#define PEER_MODERN_VERSION "2026-07-28"
#define PEER_LEGACY_VERSION "2025-11-25"
#define PEER_LINE_MAX (4U << 20) /* of one message of the server. A longer one is skipped */
/* Of one message of mcp-gateway to cordond: a result has at most PEER_RESULT_MAX bytes there. */
#define PEER_RESULT_MAX (1U << 20)
#define PEER_LINK_MAX (PEER_RESULT_MAX + (64U << 10))
#define PEER_OUT_MAX (8U << 20) /* what waits to be sent */
#define PEER_DEPTH_MAX 64
/* Of one message of mcp-gateway to cordond: reading it takes some milliseconds at most. */
#define PEER_LINK_VALUES_MAX 65536
#define PEER_CALLS_MAX 128
#define PEER_PAGES_MAX 64 /* of a list of tools */
#define PEER_CURSOR_MAX 4097
#define PEER_EDGE 256 /* bytes at both ends of a skipped message, searched for its id */

enum peer_era { PEER_UNKNOWN, PEER_LEGACY, PEER_MODERN };

enum peer_state {
	PEER_IDLE, /* no connection */
	PEER_INITIALIZING,
	PEER_DISCOVERING,
	PEER_LISTING,
	PEER_READY,
	PEER_FAILED /* see `failure`. The owner ends the connection */
};

struct peer;
struct peer_call;

struct peer_events {
	/* Its tools are known. Also each time when they were listed again. */
	void (*on_tools)(struct peer *p);
	/* It cannot be used. p->failure says why. */
	void (*on_failed)(struct peer *p);
	/* A page of the list was read: p->fresh has these tools from `first` on. The owner may
	 * change and remove them, and then calls peer_page_done(), now or later. May be NULL. */
	void (*on_page)(struct peer *p, size_t first);
	/* A message of the server, before it is cut or passed on: the owner may replace characters
	 * of it. May be NULL. */
	void (*on_words)(struct peer *p, char *text);
	/* n bytes would wait in `in` and `out`: is there room for them? If not, the message is not
	 * kept, and its call fails. The owner sees for itself when fewer wait. May be NULL. */
	bool (*may_wait)(struct peer *p, size_t n);
};

enum peer_end {
	PEER_RESULT, /* result is set */
	PEER_ERROR,  /* the server's error: code and message */
	PEER_LOST    /* no answer came, or none that can be used: message says why */
};

struct peer_answer {
	enum peer_end end;
	struct json_value result; /* an object. Valid during the callback */
	int64_t code;
	const char *message; /* of the server for PEER_ERROR: untrusted, valid UTF-8 */
};

/* A member of the caller's structure. Zeroed but for the callbacks and arg. */
struct peer_call {
	void (*on_done)(struct peer_call *c, const struct peer_answer *a);
	/* May be NULL: then the server is not asked for progress. params: of the notification. */
	void (*on_progress)(struct peer_call *c, struct json_value params);
	void *arg;
	struct peer_call *next, **link; /* peer.c's, and the rest */
	uint64_t id, deadline_ns;
	struct peer *peer; /* NULL: not begun */
};

struct peer {
	const struct peer_events *events;
	void *arg;	    /* the owner's */
	const char *name;   /* for messages. Borrowed */
	const char *client; /* the name of this client, sent to the server. Borrowed */
	bool modern_first;  /* the owner's: asks server/discover first */
	uint64_t setup_ms;  /* the owner's: how long until the tools are known */
	size_t line_max;    /* the owner's: PEER_LINE_MAX, or less */
	size_t values_max;  /* the owner's: of one message. SIZE_MAX: as many as it has room for */
	enum peer_state state;
	enum peer_era era;
	char version[32];
	char failure[256];
	struct tool_list tools;
	struct buf out;
	uint64_t ignored; /* messages */
	/* Those and their bytes, on this connection. A sixteenth less with each peer_tick(). */
	uint64_t noise, noise_bytes;
	/* Private. */
	struct buf in;
	bool no_room; /* why it skips */
	bool skipping, tried_initialize, tried_discover, changed;
	char head[PEER_EDGE], tail[PEER_EDGE]; /* of a skipped message */
	size_t nhead, ntail, skipped;	       /* skipped: its bytes so far */
	uint64_t next_id, step_id, step_deadline_ns, listed_at_ns;
	unsigned pages, ncalls, relists;
	bool page_waits;	      /* for peer_page_done() */
	char cursor[PEER_CURSOR_MAX]; /* of the next page, as JSON. "": there is none */
	struct tool_list fresh;
	struct peer_call *calls;
};

void peer_init(struct peer *p, const struct peer_events *events, void *arg);
void peer_release(struct peer *p);

/* There is a connection: writes the first message. */
void peer_begin(struct peer *p);
void peer_feed(struct peer *p, const void *bytes, size_t n);
/* Deadlines. List tools again if the server said that they changed. */
void peer_tick(struct peer *p);
/* After on_page. Without effect if the list was given up before. */
void peer_page_done(struct peer *p);
/* The connection has ended. Why is for those that wait. The tools stay listed. */
void peer_lost(struct peer *p, const char *why);

/* arguments: an object, or NONE. ERR_CONFLICT: the server is not ready. ERR_LIMIT: too many calls,
 * or too much waits to be sent. on_done is not called then. */
int peer_call(struct peer *p, struct peer_call *c, const char *tool, struct json_value arguments,
	      uint64_t timeout_ms, struct err *e) MUST_USE;
/* The caller does not wait any longer. The server is told. Repeatable. */
void peer_cancel(struct peer_call *c);

/* ---- for the peer's own files */

/* peer.c: one message of the server. */
void peer_on_message(struct peer *p, const char *line, size_t n);
/* An unrequested message of n bytes. */
void peer_ignore(struct peer *p, size_t n);
/* peer_lines.c: a message nested too deeply or with too many values. */
/* May n more bytes wait? */
bool peer_may_wait(struct peer *p, size_t n);
void peer_on_unread(struct peer *p, const char *line, size_t n);
struct peer_call *peer_find_call(struct peer *p, uint64_t id);
void peer_end_call(struct peer_call *c, const struct peer_answer *a);
void peer_fail(struct peer *p, const char *why);
/* peer_lines.c */

void peer_write_initialize(struct peer *p, uint64_t id);
void peer_write_initialized(struct peer *p);
void peer_write_discover(struct peer *p, uint64_t id);
void peer_write_list(struct peer *p, uint64_t id, struct json_value cursor);
int peer_write_call(struct peer *p, uint64_t id, const char *tool, struct json_value arguments,
		    bool progress, struct err *e) MUST_USE;
void peer_write_cancelled(struct peer *p, uint64_t id);
/* The answer to a request of the server, whose id is passed on as it is. */
void peer_write_answer(struct peer *p, struct json_value id, const char *method);
