#include "link.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_S 60

static struct sockaddr_in target;
static char host[64], key[128];

void link_die(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	(void)fprintf(stderr, "%s: ", program_invocation_short_name);
	(void)vfprintf(stderr, fmt, args);
	(void)fputc('\n', stderr);
	va_end(args);
	exit(1);
}

int64_t link_now_ns(void)
{
	struct timespec t;

	(void)clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void link_target(const char *address, const char *with_key)
{
	char name[64];
	const char *colon = strrchr(address, ':');
	unsigned long port = colon == NULL ? 0 : strtoul(colon + 1, NULL, 10);

	if (port == 0 || port > 65535 || (size_t)(colon - address) >= sizeof(name))
		link_die("%s: not an address", address);
	(void)snprintf(name, sizeof(name), "%.*s", (int)(colon - address), address);
	target = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	if (inet_pton(AF_INET, name, &target.sin_addr) != 1)
		link_die("%s: not an address", name);
	(void)snprintf(host, sizeof(host), "%s", address);
	(void)snprintf(key, sizeof(key), "%s", with_key);
	key[strcspn(key, "\r\n")] = '\0';
}

void link_open(struct link *l)
{
	const struct timeval patience = { .tv_sec = PATIENCE_S };
	const int on = 1;

	l->have = 0;
	l->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l->fd < 0 || connect(l->fd, (const struct sockaddr *)&target, sizeof(target)) < 0)
		link_die("connect %s: %s", host, strerror(errno));
	(void)setsockopt(l->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
	(void)setsockopt(l->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	(void)setsockopt(l->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

void link_close(struct link *l)
{
	(void)close(l->fd);
	l->fd = -1;
}

static void send_all(struct link *l, const char *data, size_t len)
{
	while (len > 0) {
		ssize_t n = send(l->fd, data, len, MSG_NOSIGNAL);

		if (n <= 0)
			link_die("send: %s", strerror(errno));
		data += n;
		len -= (size_t)n;
	}
}

static void send_request(struct link *l, const char *method, const char *path, uint64_t len,
			 const char *more, const char *body)
{
	char text[8192], length[48] = "";
	int n;

	if (strcmp(method, "GET") != 0)
		(void)snprintf(length, sizeof(length), "Content-Length: %llu\r\n",
			       (unsigned long long)len);
	n = snprintf(text, sizeof(text),
		     "%s %s HTTP/1.1\r\nHost: %s\r\nX-API-Key: %s\r\n%s%s\r\n%s", method, path,
		     host, key, more, length, body);
	if (n < 0 || (size_t)n >= sizeof(text))
		link_die("request too long: %s", path);
	l->have = 0;
	send_all(l, text, (size_t)n);
}

void link_send(struct link *l, const char *method, const char *path, const char *body)
{
	if (body == NULL)
		send_request(l, method, path, 0, "", "");
	else
		send_request(l, method, path, strlen(body), "Content-Type: application/json\r\n",
			     body);
}

void link_send_head(struct link *l, const char *method, const char *path, uint64_t len,
		    const char *more)
{
	send_request(l, method, path, len, more, "");
}

/* The value of a header of the answer in buf, or NULL. */
static const char *header(const struct link *l, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = strstr(l->buf, "\r\n"); at != NULL && at[2] != '\r';
	     at = strstr(at + 2, "\r\n"))
		if (strncasecmp(at + 2, name, n) == 0 && at[2 + n] == ':')
			return at + 2 + n + 1 + strspn(at + 2 + n + 1, " ");
	return NULL;
}

static void receive(struct link *l, int flags)
{
	ssize_t n = recv(l->fd, l->buf + l->have, sizeof(l->buf) - 1 - l->have, flags);

	if (n < 0 && errno == EAGAIN && (flags & MSG_DONTWAIT) != 0)
		return;
	if (n <= 0)
		link_die("no answer: %s", n == 0 ? "connection closed" : strerror(errno));
	l->have += (size_t)n;
	l->buf[l->have] = '\0';
}

/* Is the head there? Then status, body and body_len are those of what has arrived. */
static bool parse_head(struct link *l)
{
	const char *end;

	if (l->have == 0)
		return false;
	end = strstr(l->buf, "\r\n\r\n");
	if (end == NULL) {
		if (l->have == sizeof(l->buf) - 1)
			link_die("an answer's head without end");
		return false;
	}
	if (strncmp(l->buf, "HTTP/1.1 ", 9) != 0)
		link_die("not an answer: %.40s", l->buf);
	l->status = (int)strtol(l->buf + 9, NULL, 10);
	l->body = end + 4;
	l->body_len = l->have - (size_t)(l->body - l->buf);
	return true;
}

bool link_feed(struct link *l, int flags)
{
	const char *length;
	size_t want;

	receive(l, flags);
	if (!parse_head(l))
		return false;
	length = header(l, "Content-Length");
	if (length == NULL && l->status != 204)
		link_die("an answer without length: %.200s", l->buf);
	want = length == NULL ? 0 : strtoul(length, NULL, 10);
	if (want > sizeof(l->buf) / 2)
		link_die("an answer of %zu bytes", want);
	return l->body_len >= want;
}

int link_ask(struct link *l, const char *method, const char *path, const char *body)
{
	link_send(l, method, path, body);
	while (!link_feed(l, 0))
		;
	return l->status;
}

struct link_body link_head(struct link *l, int status)
{
	struct link_body b = { 0 };
	const char *length;

	do
		receive(l, 0);
	while (!parse_head(l));
	if (l->status != status)
		link_die("status %d: %.300s", l->status, l->body);
	length = header(l, "Content-Length");
	b.chunked = header(l, "Transfer-Encoding") != NULL;
	if (length != NULL)
		b.left = strtoull(length, NULL, 10);
	return b;
}

/* A chunk's size, with the end of the one before it; the line may arrive in parts. */
static bool chunk_line(struct link_body *b, char c)
{
	static char line[32];
	static size_t n;

	if (c != '\n') {
		if (c != '\r' && n < sizeof(line) - 1)
			line[n++] = c;
		return false;
	}
	if (n == 0)
		return false; /* what ends the data of a chunk */
	line[n] = '\0';
	n = 0;
	b->left = strtoull(line, NULL, 16);
	return b->left == 0;
}

bool link_count(struct link_body *b, const char *data, size_t len, uint64_t *counted)
{
	while (len > 0) {
		size_t n = len < b->left ? len : (size_t)b->left;

		*counted += n;
		b->left -= n;
		data += n;
		len -= n;
		if (!b->chunked)
			return b->left == 0;
		if (len == 0)
			return false;
		len--;
		if (chunk_line(b, *data++))
			return true;
	}
	return !b->chunked && b->left == 0;
}

void link_member(const struct link *l, const char *name, char *ret, size_t cap)
{
	char quoted[64];
	const char *at;
	size_t n;

	(void)snprintf(quoted, sizeof(quoted), "\"%s\":\"", name);
	at = strstr(l->body, quoted);
	if (at == NULL)
		link_die("no %s in %.200s", name, l->body);
	at += strlen(quoted);
	n = strcspn(at, "\"");
	if (n >= cap)
		link_die("%s too long", name);
	memcpy(ret, at, n);
	ret[n] = '\0';
}
