/* http1.h - reads HTTP/1.1 heads, strictly: bytes to structures. Pure. Nothing is copied or
 * allocated.
 *
 * Two parsers that disagree about where a message ends are a vulnerability, so every ambiguous
 * message is malformed: a bare CR or LF, folded lines, a space before the colon, two lengths, two
 * framings. All spans point into the bytes read, and are valid as long as those are. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/own.h"

#define HTTP1_HEADERS_MAX 64
#define HTTP1_METHOD_MAX 32
#define HTTP1_TARGET_MAX 8192

struct http1_span {
	const char *p;
	size_t n;
};

struct http1_header {
	struct http1_span name, value; /* value without the white space around it */
};

enum http1_method {
	HTTP1_OTHER, /* a method not listed here: see method_name */
	HTTP1_GET,
	HTTP1_HEAD,
	HTTP1_POST,
	HTTP1_PUT,
	HTTP1_PATCH,
	HTTP1_DELETE,
	HTTP1_OPTIONS,
	HTTP1_CONNECT,
	HTTP1_TRACE,
	HTTP1_METHODS
};

enum http1_form {
	HTTP1_ORIGIN,	 /* "/path?query" */
	HTTP1_ABSOLUTE,	 /* "http://host/path?query". Its host is the same as in Host */
	HTTP1_AUTHORITY, /* "host:port": CONNECT, and CONNECT only */
	HTTP1_ASTERISK	 /* "*": OPTIONS only */
};

enum http1_framing {
	HTTP1_NO_BODY,
	HTTP1_LENGTH,	  /* content_length bytes, which may be 0 */
	HTTP1_CHUNKED,	  /* chunk.h */
	HTTP1_UNTIL_CLOSE /* responses only */
};

struct http1_request {
	enum http1_method method;
	struct http1_span method_name;
	enum http1_form form;
	struct http1_span target; /* as sent */
	/* raw, begins with '/' (which may be a constant). Else empty */
	struct http1_span path;
	struct http1_span query;     /* raw, without '?'. p is NULL if there is no '?' */
	struct http1_span authority; /* of absolute and authority form. Else empty */
	struct http1_span host;	     /* "name", "name:80", "[::1]:80". Empty only in HTTP/1.0 */
	int minor;		     /* 0 or 1 */
	struct http1_header headers[HTTP1_HEADERS_MAX];
	size_t headers_n;
	enum http1_framing framing; /* never HTTP1_UNTIL_CLOSE */
	uint64_t content_length;    /* 0 unless HTTP1_LENGTH */
	bool keep_alive;
	bool expect_continue; /* HTTP/1.1 only, and only if there is a body */
	/* A valid opening handshake: GET, 1.1, no body, version 13, a key of 16 bytes. ws_key is
	 * empty otherwise. */
	bool upgrade_websocket;
	struct http1_span ws_key;
};

struct http1_response {
	int status; /* 100 to 599 */
	int minor;
	struct http1_span reason;
	struct http1_header headers[HTTP1_HEADERS_MAX];
	size_t headers_n;
	enum http1_framing framing;
	uint64_t content_length; /* 0 unless HTTP1_LENGTH */
	bool keep_alive;	 /* never with HTTP1_UNTIL_CLOSE */
};

/* Why a head is malformed. Words is a constant, in lower case, without bytes of the peer. */
struct http1_fault {
	int status; /* requests: 400, 414, 417, 431, 501, 505. responses: always 502 */
	const char *words;
};

/* Find the end of a head that arrives in pieces, reading each byte once: *scanned begins at 0 and
 * is kept by the caller between calls with the same, longer bytes. Return the length of the head
 * with its empty line. 0: not complete. -1: it has a byte that no head may have (a control byte, CR
 * or LF alone, an empty first line), which more bytes cannot correct. The caller bounds the length.
 */
int http1_head_end(const char *bytes, size_t len, size_t *scanned) MUST_USE;

/* Each returns the length of the head (the body or the next message follows). 0: not complete. -1:
 * malformed, and *ret_fault says why. *ret is set only if > 0. To read each byte once, call
 * http1_head_end() first, and these when it no longer returns 0. */
int http1_request_read(const char *bytes, size_t len, struct http1_request *ret,
		       struct http1_fault *ret_fault) MUST_USE;
/* method: of the request. 1xx, 204, 304, answers to HEAD and 2xx to CONNECT have no body. 1xx other
 * than 101 are not the final answer: the caller reads on. */
int http1_response_read(const char *bytes, size_t len, enum http1_method method,
			struct http1_response *ret, struct http1_fault *ret_fault) MUST_USE;

/* Find a header, names compared without case. Return how many headers have this name. *Ret (may
 * be NULL) is the value of the first, or empty with p NULL. */
size_t http1_find(const struct http1_header *headers, size_t n, const char *name,
		  struct http1_span *ret);
/* Is word among the comma-separated items of all headers of this name? Without case. */
bool http1_lists(const struct http1_header *headers, size_t n, const char *name, const char *word);

/* The media type of a Content-Type, without its parameters. */
struct http1_span http1_media_type(struct http1_span value);

bool http1_span_is(struct http1_span s, const char *text);
bool http1_span_is_nocase(struct http1_span s, const char *text);
/* A token (names, methods). A field value without control bytes, CR, LF, or white space around it.
 */
bool http1_is_token(const char *text, size_t n);
bool http1_is_value(const char *text, size_t n);
/* Printable ASCII without '#'. Other bytes that a URI may not have are treated as data, as browsers
 * do send them. A fragment has a meaning, and is never sent. */
bool http1_is_target(const char *text, size_t n);
int http1_hex(char c); /* the value of a hex digit, or -1 */

const char *http1_method_name(enum http1_method method); /* "" for HTTP1_OTHER */
/* "Not Found". "" for an unknown status. */
const char *http1_reason(int status);
