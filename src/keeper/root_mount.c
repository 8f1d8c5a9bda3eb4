/* root_mount.c - mounts directories and files of the machine into a cell, as the request says.
 *
 * The source is an open descriptor: from the user of cordon run, or opened below a root of the
 * server's operator (cell_open_source()). What must not change: no devices, no set-id programs,
 * read-only unless the request says writable. */
#include "root.h"

#include <sys/stat.h>

#include "io.h"

/* The image's directory data in place of its root. The image is attached because kernels
 * before 6.15 copy attached mounts only: over the base at /tmp of the builder, which the cell loses
 * with the old root. (Directory "at" of the base is the cell's root by now: what is mounted there
 * would stay over / of the cell.) */
static int take_data(struct root_trees *p, unsigned i, struct err *e)
{
	int data = -1;

	if (kernel_move_mount(p->mounts[i], p->base, "/tmp", 0) < 0)
		return err_sys(e, "attach volume");
	if (mounts_copy(p->mounts[i], "data", 0, &data, e) < 0)
		return -1;
	io_close_all(&p->mounts[i], 1);
	p->mounts[i] = data;
	return 0;
}

/* The owner of the source is translated to the cell's user, which can then read what the owner can
 * read, and write it if the mount is writable. The owners in a volume are those of the cell. */
int root_place_mount(const struct cell *c, const struct keeper *k, const struct keeper_create *r,
		     struct root_trees *p, unsigned i, struct err *e)
{
	bool writable = (r->mounts[i].flags & CELL_MOUNT_WRITABLE) != 0;
	const char *at = r->mounts[i].at;
	struct stat st;
	bool volume = cell_is_volume(k, &r->mounts[i].from);
	int ns = -1, mapped = 0;

	if (volume && cell_is_image(&r->mounts[i].from) && take_data(p, i, e) < 0)
		return -1;
	if (fstat(p->mounts[i], &st) < 0)
		return err_sys(e, "mount %s", at);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode))
		return err_set(e, ERR_INVALID,
			       "mount %s: the source is neither a directory nor a file", at);
	if (mounts_restrict(p->mounts[i],
			    MOUNT_ATTR_NODEV | MOUNT_ATTR_NOSUID |
				    (writable ? 0 : MOUNT_ATTR_RDONLY),
			    e) < 0)
		return -1;
	if (!k->setup.rootless) {
		if (!volume &&
		    ids_translator(st.st_uid, ids_outside(&c->ids, 'u', r->uid), st.st_gid,
				   ids_outside(&c->ids, 'g', r->gid), &ns, e) < 0)
			return -1;
		OWN_FD translator = ns;
		mapped = mounts_idmap(p->mounts[i], volume ? c->userns_fd : translator, e);
		if (mapped < 0)
			return -1;
	}
	if (writable && mapped == 0 && !k->setup.rootless)
		return err_set(e, ERR_UNSUPPORTED,
			       "mount %s: this file system has no idmapped mounts, so the cell "
			       "could not own what it writes; mount it read-only",
			       at);
	if (mounts_make_target(p->root, at, S_ISDIR(st.st_mode), ids_outside(&c->ids, 'u', 0),
			       ids_outside(&c->ids, 'g', 0), e) < 0)
		return err_wrap(e, "mount");
	return mounts_place(p->mounts[i], p->root, at, e);
}
