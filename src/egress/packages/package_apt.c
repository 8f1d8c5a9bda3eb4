/* package_apt.c - see package_apt.h. A list in the cache is a path a line. It is read again before
 * it is written, since other processes write it, too. Of two that write at once, one wins. */
#include "egress/packages/package_apt.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "egress/control/egress_session.h"
#include "egress/packages/cache_link.h"
#include "egress/packages/package_source.h"
#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/sha256.h"
#include "lib/base/str.h"

#define TEXT_MAX ((size_t)PACKAGE_APT_PATHS * PACKAGE_APT_PATH_MAX)

struct path {
	char *text; /* owned */
	/* A release: its last known content, and since when. */
	uint8_t sha256[SHA256_SIZE];
	uint64_t since_ms;
};

struct package_apt {
	struct package_apt *next; /* the last used first */
	struct egress *egress;
	char tenant[EGRESS_ID_MAX], scope[CACHE_SCOPE_MAX], registry[PACKAGE_REGISTRY_TEXT];
	struct path paths[PACKAGE_APT_PATHS]; /* the last used first */
	size_t n;
	bool changed; /* since it was stored */
	struct cache_call call;
};

/* ---- the lists of the process */

static void list_free(struct package_apt *t)
{
	cache_call_cancel(&t->call);
	for (size_t i = 0; i < t->n; i++)
		free(t->paths[i].text);
	free(t);
}

/* NULL: out of memory. */
static struct package_apt *list_new(struct egress *g, const struct package_apt_of *of)
{
	struct package_apt *t = calloc(1, sizeof(*t));

	if (t == NULL)
		return NULL;
	t->egress = g;
	t->call.found.fd = -1;
	str_copy(t->tenant, of->tenant);
	str_copy(t->scope, of->scope);
	str_copy(t->registry, of->registry);
	return t;
}

static struct package_apt *take_out(struct package_apt **at)
{
	struct package_apt *t = *at;

	*at = t->next;
	return t;
}

/* Make room for one more list of the tenant: its last one goes if it has too many, else the last
 * of all. */
static void make_room(struct egress *g, const char *tenant)
{
	struct package_apt **last = NULL, **own = NULL, **at = &g->package_apt;
	unsigned n = 0, nown = 0;

	for (; *at != NULL; at = &(*at)->next, n++) {
		last = at;
		if (strcmp((*at)->tenant, tenant) == 0) {
			own = at;
			nown++;
		}
	}
	if (nown >= PACKAGE_APT_TENANT_LISTS)
		list_free(take_out(own));
	else if (n >= PACKAGE_APT_LISTS)
		list_free(take_out(last));
}

static bool is_of(const struct package_apt *t, const struct package_apt_of *of)
{
	return strcmp(t->tenant, of->tenant) == 0 && strcmp(t->scope, of->scope) == 0 &&
	       strcmp(t->registry, of->registry) == 0;
}

/* It becomes the first. NULL: out of memory. */
static struct package_apt *list_of(struct egress *g, const struct package_apt_of *of)
{
	struct package_apt **at = &g->package_apt, *t;

	while (*at != NULL && !is_of(*at, of))
		at = &(*at)->next;
	if (*at != NULL) {
		t = take_out(at);
	} else {
		make_room(g, of->tenant);
		t = list_new(g, of);
	}
	if (t == NULL)
		return NULL;
	t->next = g->package_apt;
	g->package_apt = t;
	return t;
}

static bool package_apt_holds(const struct package_apt *t, const char *path, size_t n, size_t *ret)
{
	for (size_t i = 0; i < t->n; i++)
		if (strncmp(t->paths[i].text, path, n) == 0 && t->paths[i].text[n] == '\0') {
			*ret = i;
			return true;
		}
	return false;
}

/* It becomes part of a request. */
static bool is_plain(const char *path, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (path[i] <= ' ' || path[i] > '~')
			return false;
	return n > 0 && n < PACKAGE_APT_PATH_MAX && path[0] == '/';
}

/* True if it is new. */
static bool package_apt_add(struct package_apt *t, const char *path, size_t n, bool first)
{
	struct path kept = { 0 };
	bool is_new;
	size_t i;

	if (!is_plain(path, n))
		return false;
	is_new = !package_apt_holds(t, path, n, &i);
	if (!first && (!is_new || t->n == PACKAGE_APT_PATHS))
		return false;
	if (!is_new)
		kept = t->paths[i];
	else if ((kept.text = strndup(path, n)) == NULL)
		return false;
	if (is_new && t->n == PACKAGE_APT_PATHS)
		free(t->paths[--t->n].text);
	if (is_new)
		i = t->n++;
	if (first) {
		memmove(&t->paths[1], &t->paths[0], i * sizeof(t->paths[0]));
		i = 0;
	}
	t->paths[i] = kept;
	return is_new;
}

/* ---- in the cache */

static struct cache_key key_of(const struct package_apt *t)
{
	return (struct cache_key){ t->scope, t->registry, PACKAGE_APT_KEY };
}

/* A failure costs later processes a list, and this one nothing. */
static void package_apt_store(struct package_apt *t)
{
	const struct cache_key key = key_of(t);
	struct buf text = BUF_INIT(TEXT_MAX);
	struct err e;
	int fd;

	for (size_t i = 0; i < t->n; i++)
		buf_printf(&text, "%s\n", t->paths[i].text);
	fd = buf_check(&text, &e) < 0 ? -1 : memfd_create("apt indexes", MFD_CLOEXEC);
	if (fd >= 0 && write(fd, text.data, text.len) == (ssize_t)text.len)
		cache_store_file(t->egress, t->tenant, &key,
				 &(struct cache_meta){ "", "", "text/plain" }, fd, text.len, NULL);
	else if (fd >= 0)
		fd_close(fd);
	buf_release(&text);
}

/* Paths of the cache go behind those of this process, and are checked as any other. */
static void read_list(struct package_apt *t, const struct cache_found *found)
{
	static char text[TEXT_MAX + 1];
	ssize_t n = found == NULL || found->fd < 0 ? 0 : pread(found->fd, text, TEXT_MAX, 0);

	text[n > 0 ? n : 0] = '\0';
	for (const char *p = text; *p != '\0'; p += strcspn(p, "\n"), p += *p == '\n')
		(void)package_apt_add(t, p, strcspn(p, "\n"), false);
}

static void on_found(struct cache_call *c, struct cache_found *found, const struct err *e)
{
	struct package_apt *t = c->arg;

	read_list(t, found);
	if (e == NULL && t->changed)
		package_apt_store(t);
	t->changed = false;
}

/* ---- paths */

/* For a suite, not for one of its indexes: archives have such files too, which name no index. */
static bool is_release(const char *path)
{
	const char *slash = strrchr(path, '/'), *above = slash;

	if (slash == NULL || (strcmp(slash, "/InRelease") != 0 && strcmp(slash, "/Release") != 0))
		return false;
	while (above > path && above[-1] != '/')
		above--;
	return strncmp(above, "binary-", 7) != 0;
}

/* The folder of an index that a path belongs to: how much of the path it is. 0: none. */
static size_t folder_of(const char *path)
{
	const char *slash = strrchr(path, '/'), *hash = strstr(path, "/by-hash/"),
		   *diff = strstr(path, "/Packages.diff/");

	if (hash != NULL)
		return (size_t)(hash - path);
	if (diff != NULL)
		return (size_t)(diff - path);
	return slash != NULL && strncmp(slash, "/Packages", 9) == 0 ? (size_t)(slash - path) : 0;
}

/* Lists of translations and others are there by hash, too. */
static bool is_index(const char *path, size_t n)
{
	const char *by_hash = strstr(path, "/by-hash/"), *last = path;

	for (const char *p = path; p < path + n; p++)
		if (*p == '/')
			last = p;
	return n > 0 && (by_hash == NULL || strncmp(last, "/binary-", 8) == 0);
}

/* It is the content of the first path. */
static void set_content(struct package_apt *t, const uint8_t *sha256)
{
	struct path *p = &t->paths[0];

	if (p->since_ms != 0 && memcmp(p->sha256, sha256, sizeof(p->sha256)) == 0)
		return;
	memcpy(p->sha256, sha256, sizeof(p->sha256));
	p->since_ms = clock_wall_ms();
}

void package_apt_note(struct egress *g, const struct package_apt_of *of, const char *path,
		      const uint8_t *sha256)
{
	size_t n = is_release(path) ? strlen(path) : folder_of(path);
	struct package_apt *t;
	struct cache_key key;
	bool is_new;

	if (!is_release(path) && !is_index(path, n))
		return;
	t = list_of(g, of);
	if (t == NULL || !is_plain(path, n))
		return;
	is_new = package_apt_add(t, path, n, true);
	if (sha256 != NULL && t->n > 0 && strncmp(t->paths[0].text, path, n) == 0)
		set_content(t, sha256);
	if (!is_new)
		return;
	t->changed = true;
	if (cache_call_is_waiting(&t->call))
		return;
	t->call.on_done = on_found;
	t->call.arg = t;
	key = key_of(t);
	cache_find(g, t->tenant, &t->call, &key);
}

void package_apt_found(struct egress *g, const struct package_apt_of *of,
		       const struct cache_found *found)
{
	struct package_apt *t = list_of(g, of);

	if (t != NULL)
		read_list(t, found);
}

/* ---- picking */

/* How long the path of the archive is, with the last '/': what names in the index follow. */
static size_t base_of(const char *release)
{
	const char *dists = strstr(release, "/dists/");

	return (size_t)((dists != NULL ? dists : strrchr(release, '/')) - release) + 1;
}

/* The release of an index: the nearest above it. NULL: no program asked for one. */
static const struct path *release_of(const struct package_apt *t, const char *index)
{
	const struct path *best = NULL;
	size_t most = 0;

	for (size_t i = 0; i < t->n; i++) {
		const char *path = t->paths[i].text;
		size_t n = is_release(path) ? (size_t)(strrchr(path, '/') - path) : 0;

		if (n > most && strncmp(path, index, n) == 0 &&
		    (index[n] == '/' || index[n] == '\0')) {
			best = &t->paths[i];
			most = n;
		}
	}
	return best;
}

/* "..._amd64.deb" is listed for amd64, "..._all.deb" for any. */
static bool has_arch(const char *index, const char *file)
{
	const char *last = strrchr(index, '/'), *arch = strrchr(file, '_');
	size_t n = arch == NULL ? 0 : strcspn(arch + 1, ".");

	if (n == 0 || last == NULL || strncmp(last, "/binary-", 8) != 0 ||
	    strncmp(arch + 1, "all.", 4) == 0)
		return true;
	return strncmp(last + 8, arch + 1, n) == 0 && last[8 + n] == '\0';
}

size_t package_apt_pick(struct egress *g, const struct package_apt_of *of, const char *path,
			struct package_apt_pick ret[PACKAGE_APT_PICKS])
{
	struct package_apt *t = list_of(g, of);
	size_t n = 0;

	for (size_t i = 0; t != NULL && i < t->n && n < PACKAGE_APT_PICKS; i++) {
		const char *index = t->paths[i].text;
		const struct path *r = is_release(index) ? NULL : release_of(t, index);

		if (r == NULL || !has_arch(index, path) ||
		    strncmp(r->text, path, base_of(r->text)) != 0)
			continue;
		ret[n] = (struct package_apt_pick){ .since_ms = r->since_ms,
						    .base = base_of(r->text) };
		str_copy(ret[n].release, r->text);
		str_copy(ret[n].index, index);
		n++;
	}
	return n;
}
