#include "cell/cellctl/usage.h"

#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "cell/cellctl/cgroups_private.h"
#include "lib/base/own.h"

uint64_t usage_field(const char *text, const char *word)
{
	size_t n = strlen(word);

	if (n == 0)
		return strtoull(text, NULL, 10);
	for (const char *p = text; p != NULL; p = strchr(p, '\n')) {
		p += *p == '\n';
		if (strncmp(p, word, n) == 0 && p[n] == ' ')
			return strtoull(p + n + 1, NULL, 10);
	}
	return 0;
}

/* One read: the kernel returns such a file as a whole. */
static bool usage_read_text(int dir, const char *path, char *text, size_t cap)
{
	OWN_FD fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, cap - 1);

	text[n < 0 ? 0 : n] = '\0';
	return n >= 0;
}

static bool usage_is_wanted(const struct cgroups_source *s, enum usage_detail detail)
{
	if (detail == USAGE_LIMITS)
		return s->offset == offsetof(struct usage, oom_kills) ||
		       s->offset == offsetof(struct usage, pids_refused);
	return (!s->rare || detail == USAGE_ALL) &&
	       (detail != USAGE_KEPT || s->offset != offsetof(struct usage, pids));
}

void usage_read(const struct cgroups *c, const char *id, enum usage_detail detail,
		struct usage *ret)
{
	const struct cgroups_version *v = cgroups_version(c);
	char path[128], text[4096];

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; v != NULL && i < v->nsources; i++) {
		const struct cgroups_source *s = &v->sources[i];
		int dir = c->dirs[s->dir] < 0 && s->or_first ? c->dirs[0] : c->dirs[s->dir];
		uint64_t value;

		memcpy(&value, (char *)ret + s->offset, sizeof(value));
		if (dir < 0 || (s->if_none && value != 0) || !usage_is_wanted(s, detail))
			continue;
		(void)snprintf(path, sizeof(path), CELL_CGROUP_PREFIX "%s/%s", id, s->file);
		if (!usage_read_text(dir, path, text, sizeof(text)))
			continue;
		value = usage_field(text, s->word) / s->divide;
		memcpy((char *)ret + s->offset, &value, sizeof(value));
	}
}
