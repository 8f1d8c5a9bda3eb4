#include "cell/kernel/cpio.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "lib/base/io.h"

#define NAME_LEN_MAX 200
#define HEAD_LEN 110

/* One entry of the archive. Its link count is 1 and its owner root. */
struct cpio_entry {
	const char *name;
	mode_t mode;
	uint32_t major, minor;
	const void *data;
	size_t len;
};

/* Names and data end at multiples of four bytes. */
static int cpio_pad(struct cpio *c, size_t written, struct err *e)
{
	static const char zeros[4];

	return io_write_all(c->fd, zeros, -written & 3, e);
}

/* Numbers are eight hexadecimal digits, so sizes end at 4 GiB. The inode is the entry's number in
 * the archive. */
static int cpio_put(struct cpio *c, const struct cpio_entry *t, struct err *e)
{
	char head[HEAD_LEN + NAME_LEN_MAX + 1];
	size_t name_len = strlen(t->name) + 1;
	int n;

	if (name_len > NAME_LEN_MAX || t->len > UINT32_MAX)
		return err_set(e, ERR_LIMIT, "initramfs: %.40s is too long", t->name);
	/* magic, inode, mode, uid, gid, links, time, size, device of the file (2), of the node (2),
	 * name length, checksum (unused) */
	n = snprintf(head, sizeof(head),
		     "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s", ++c->entries,
		     (unsigned)t->mode, 0U, 0U, 1U, 0U, (unsigned)t->len, 0U, 0U, t->major,
		     t->minor, (unsigned)name_len, 0U, t->name);
	if (io_write_all(c->fd, head, (size_t)n + 1, e) < 0 || cpio_pad(c, (size_t)n + 1, e) < 0 ||
	    io_write_all(c->fd, t->data, t->len, e) < 0 || cpio_pad(c, t->len, e) < 0)
		return err_wrap(e, "initramfs");
	return 0;
}

int cpio_add(struct cpio *c, const char *name, mode_t mode, const void *data, size_t len,
	     struct err *e)
{
	return cpio_put(
		c, &(struct cpio_entry){ .name = name, .mode = mode, .data = data, .len = len }, e);
}

int cpio_add_device(struct cpio *c, const char *name, mode_t mode, uint32_t major, uint32_t minor,
		    struct err *e)
{
	return cpio_put(
		c,
		&(struct cpio_entry){ .name = name, .mode = mode, .major = major, .minor = minor },
		e);
}

int cpio_end(struct cpio *c, struct err *e)
{
	return cpio_put(c, &(struct cpio_entry){ .name = "TRAILER!!!" }, e);
}
