/* export_sink.h - where an export goes: a file, a syslog socket, or an OTLP receiver. */
#pragma once

#include <limits.h>

#include "cmd/client/export_metrics.h"
#include "lib/base/err.h"
#include "lib/net/client.h"

/* One structure for all kinds of receivers. send and release are the operations. The members
 * below belong to one kind each. */
#define EXPORT_BODY_MAX ((size_t)4 << 20) /* bytes of one request */
#define EXPORT_HEADERS_MAX 16

struct export_sink;

/* Return when the receiver has all of the items. -1 with *ret_wait_ms UINT64_MAX: trying again
 * would not help. Otherwise the caller tries the whole again after that time, or its own. */
typedef int export_send_fn(struct export_sink *s, const struct export_node *node,
			   const struct export_item *items, size_t n, uint64_t *ret_wait_ms,
			   struct err *e);

struct export_sink {
	export_send_fn *send;
	/* Metrics. NULL: this kind has none. As send. */
	int (*metrics)(struct export_sink *s, const struct export_node *node,
		       const json_t *sessions, const struct export_calls *c, uint64_t *ret_wait_ms,
		       struct err *e);
	void (*release)(struct export_sink *s);

	int fd; /* file or socket. -1: none */
	/* Of files. */
	const char *path;
	uint64_t size, max_size;
	uint64_t max_files;
	/* Of sockets. */
	const char *address;
	bool datagrams;
	/* Of OTLP. */
	struct client *client;
	char header_text[8192];
	struct client_header headers[EXPORT_HEADERS_MAX];
	size_t nheaders;
};

int export_file_open(struct export_sink *s, const char *path, uint64_t max_size, uint64_t max_files,
		     struct err *e) MUST_USE;
/* "udp://HOST:PORT", "tcp://HOST:PORT", "unix:/PATH". Connect at the first send. */
int export_socket_open(struct export_sink *s, const char *address, struct err *e) MUST_USE;
/* headers: a file with lines "Name: value". NULL: none. */
int export_otlp_open(struct export_sink *s, const char *url, const char *headers,
		     const char *ca_file, struct err *e) MUST_USE;
