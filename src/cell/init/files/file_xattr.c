#include "cell/init/files/file_xattr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>

#include "cell/init/files/builtin_io.h"

#define PREFIX "user.e2b."
#define NAMES_BYTES_MAX 65536U /* the kernel's bound for all names of a file */

static char names[NAMES_BYTES_MAX];

int file_xattr_parse(const char *text, struct file_xattr *ret, struct err *e)
{
	static char line[FILE_META_KEY_MAX + FILE_META_VALUE_MAX + 1];

	ret->len = 0;
	while (*text != '\0') {
		size_t n = strcspn(text, "\n"), key = strcspn(text, "=\n");

		if (key == n)
			return err_set(e, ERR_INVALID, "metadata: not key=value");
		if (n >= sizeof(line))
			return err_set(e, ERR_LIMIT, "metadata: over 4096 bytes");
		memcpy(line, text, n);
		line[n] = line[key] = '\0';
		if (!file_meta_add(ret->bytes, &ret->len, line, line + key + 1))
			return err_set(e, ERR_LIMIT,
				       "metadata: an empty or repeated key, one of over 246 "
				       "bytes, or over 4096 bytes in all");
		text += n + (text[n] == '\n');
	}
	return 0;
}

static bool file_xattr_is_ours(const char *name)
{
	return strncmp(name, PREFIX, sizeof(PREFIX) - 1) == 0;
}

static ssize_t file_xattr_get(const char *path, bool follow, const char *name, char *ret,
			      size_t cap)
{
	return follow ? getxattr(path, name, ret, cap) : lgetxattr(path, name, ret, cap);
}

void file_xattr_read(const char *path, bool follow, struct file_xattr *ret)
{
	ssize_t n = follow ? listxattr(path, names, sizeof(names))
			   : llistxattr(path, names, sizeof(names));

	ret->len = 0;
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		char value[FILE_META_VALUE_MAX];
		ssize_t len;

		if (!file_xattr_is_ours(names + at))
			continue;
		len = file_xattr_get(path, follow, names + at, value, sizeof(value) - 1);
		if (len < 0 || memchr(value, '\0', (size_t)len) != NULL)
			continue;
		value[len] = '\0';
		if (!file_meta_add(ret->bytes, &ret->len, names + at + sizeof(PREFIX) - 1, value))
			continue; /* it exceeds a bound, the next one may be smaller */
	}
}

/* Remove attributes outside of keep. */
static int file_xattr_remove_others(int fd, const struct file_meta *keep, const char *path,
				    struct err *e)
{
	ssize_t n = flistxattr(fd, names, sizeof(names));

	if (n < 0 && errno == ENOTSUP)
		return 0;
	if (n < 0)
		return builtin_io_fail(e, "read metadata", path);
	for (ssize_t at = 0; at < n; at += (ssize_t)strlen(names + at) + 1) {
		const char *key, *value;
		bool kept = !file_xattr_is_ours(names + at);

		for (size_t i = 0; !kept && file_meta_next(keep, &i, &key, &value);)
			kept = strcmp(key, names + at + sizeof(PREFIX) - 1) == 0;
		if (!kept && fremovexattr(fd, names + at) < 0)
			return builtin_io_fail(e, "remove metadata", path);
	}
	return 0;
}

int file_xattr_replace(int fd, const struct file_xattr *x, const char *path, struct err *e)
{
	const struct file_meta m = { x->bytes, x->len };
	const char *key, *value;

	for (size_t at = 0; file_meta_next(&m, &at, &key, &value);) {
		char name[sizeof(PREFIX) + FILE_META_KEY_MAX];

		(void)snprintf(name, sizeof(name), PREFIX "%s", key);
		if (fsetxattr(fd, name, value, strlen(value), 0) == 0)
			continue;
		if (errno == ENOTSUP)
			return err_set(e, ERR_UNSUPPORTED,
				       "this kernel cannot keep file metadata (extended "
				       "attributes) here: %s",
				       path);
		return builtin_io_fail(e, "keep metadata", path);
	}
	return file_xattr_remove_others(fd, &m, path, e);
}
