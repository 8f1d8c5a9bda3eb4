#include "lib/outbound/resolver_conf.h"

#include <string.h>

#include "lib/policy/host.h"

#define TIMEOUT_MS 2000 /* glibc waits 5 s. Here a whole connection has 10 s */
#define WHITE " \t\r\f\v"

struct resolver_hosts {
	size_t n, cap;
	struct resolver_conf_known {
		char *host; /* owned */
		struct ip ip;
	} * known;
};

struct word {
	const char *p;
	size_t n;
};

/* The next word of the line. Comments end it. */
static struct word conf_next_word(struct word *line)
{
	struct word w;

	while (line->n > 0 && memchr(WHITE, *line->p, sizeof(WHITE) - 1)) {
		line->p++;
		line->n--;
	}
	if (line->n > 0 && *line->p == '#')
		line->n = 0;
	w = (struct word){ line->p, 0 };
	while (w.n < line->n && !memchr(WHITE "#", w.p[w.n], sizeof(WHITE "#") - 1))
		w.n++;
	line->p += w.n;
	line->n -= w.n;
	return w;
}

/* False at the end of the text. */
static bool conf_next_line(const char **text, struct word *ret)
{
	size_t n = strcspn(*text, "\n");

	if (**text == '\0')
		return false;
	*ret = (struct word){ *text, n };
	*text += n + ((*text)[n] == '\n');
	return true;
}

static bool conf_is(struct word w, const char *text)
{
	return w.n == strlen(text) && memcmp(w.p, text, w.n) == 0;
}

/* The number of "name:3", 1 to max. 0: another word. */
static unsigned conf_read_option(struct word w, const char *name, unsigned max)
{
	size_t n = strlen(name);
	unsigned value = 0;

	if (w.n <= n || w.n > n + 4 || memcmp(w.p, name, n) != 0)
		return 0;
	for (; n < w.n; n++) {
		if (w.p[n] < '0' || w.p[n] > '9')
			return 0;
		value = value * 10 + (unsigned)(w.p[n] - '0');
	}
	return value > max ? max : value;
}

/* Values above a bound count as the bound, and unknown options are skipped. */
static void conf_read_options(struct word *line, struct resolver_conf *c)
{
	for (struct word w = conf_next_word(line); w.n > 0; w = conf_next_word(line)) {
		unsigned timeout = conf_read_option(w, "timeout:", 5);
		unsigned attempts = conf_read_option(w, "attempts:", 3);

		if (timeout > 0)
			c->timeout_ms = timeout * 1000;
		if (attempts > 0)
			c->attempts = attempts;
		c->rotate |= conf_is(w, "rotate");
		c->use_vc |= conf_is(w, "use-vc");
	}
}

void resolver_conf_read(const char *text, struct resolver_conf *ret)
{
	struct word line;

	*ret = (struct resolver_conf){ .timeout_ms = TIMEOUT_MS, .attempts = 2 };
	while (conf_next_line(&text, &line)) {
		struct word key;

		if (line.n > 0 && *line.p == ';')
			continue;
		key = conf_next_word(&line);
		if (conf_is(key, "options")) {
			conf_read_options(&line, ret);
		} else if (conf_is(key, "nameserver") && ret->nservers < RESOLVER_CONF_SERVERS) {
			struct word at = conf_next_word(&line);

			if (ip_read(at.p, at.n, &ret->servers[ret->nservers]) == 0)
				ret->nservers++;
		}
	}
	if (ret->nservers == 0) {
		ret->servers[0] = (struct ip){ { [10] = 0xFF, [11] = 0xFF, [12] = 127, [15] = 1 } };
		ret->nservers = 1;
	}
}

/* ---- hosts */

static int conf_add(struct resolver_hosts *h, const char *host, const struct ip *ip)
{
	char *copy;

	if (h->n == h->cap) {
		size_t cap = h->cap ? 2 * h->cap : 16;
		struct resolver_conf_known *known = reallocarray(h->known, cap, sizeof(*known));

		if (!known)
			return -1;
		h->known = known;
		h->cap = cap;
	}
	copy = strdup(host);
	if (!copy)
		return -1;
	h->known[h->n++] = (struct resolver_conf_known){ copy, *ip };
	return 0;
}

/* A line without a usable address, and names that host_normal() refuses, are skipped. -1: out of
 * memory. */
static int conf_read_host_line(struct resolver_hosts *h, struct word *line)
{
	struct word at = conf_next_word(line);
	char host[HOST_MAX];
	struct ip ip;

	if (ip_read(at.p, at.n, &ip) < 0)
		return 0;
	for (struct word w = conf_next_word(line); w.n > 0; w = conf_next_word(line)) {
		if (host_normal(w.p, w.n, host) < 0 || h->n == RESOLVER_HOSTS_MAX)
			continue;
		if (conf_add(h, host, &ip) < 0)
			return -1;
	}
	return 0;
}

struct resolver_hosts *resolver_conf_hosts(const char *text)
{
	struct resolver_hosts *h = calloc(1, sizeof(*h));
	struct word line;

	while (h && conf_next_line(&text, &line)) {
		if (conf_read_host_line(h, &line) == 0)
			continue;
		resolver_conf_hosts_free(h);
		return NULL;
	}
	return h;
}

void resolver_conf_hosts_free(struct resolver_hosts *h)
{
	if (!h)
		return;
	for (size_t i = 0; i < h->n; i++)
		free(h->known[i].host);
	free(h->known);
	free(h);
}

size_t resolver_conf_hosts_find(const struct resolver_hosts *h, const char *host, struct ip *ret,
				size_t cap)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n && n < cap; i++) {
		if (strcmp(h->known[i].host, host) == 0)
			ret[n++] = h->known[i].ip;
	}
	return n;
}
