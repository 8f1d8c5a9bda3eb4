/* content_new.c - the directory new of a volume: files that are being written, and trees that are
 * being removed. See content.h.
 *
 * A file is locked by the child that writes it. What is not locked is a tree that is to be removed,
 * or was left by a child that was killed: the process that opens the directory removes it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "content.h"
#include "rand.h"
#include "tree_remove.h"

void content_new_name(const char *prefix, char ret_name[32])
{
	rand_id(prefix, ret_name, 32);
}

/* ---- what was left */

/* True: no other child works on it. */
static bool is_left(int new, const char *name)
{
	OWN_FD fd = openat(new, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

	return fd < 0 || flock(fd, LOCK_EX | LOCK_NB) == 0;
}

/* Rounds, as others may leave something meanwhile. */
static void sweep(int new)
{
	bool more = true;
	struct err e;

	for (unsigned round = 0; more && round < 16; round++) {
		int fd = openat(new, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		DIR *d = fd < 0 ? NULL : fdopendir(fd);

		if (d == NULL) {
			if (fd >= 0)
				fd_close(fd);
			return;
		}
		more = false;
		for (struct dirent *entry; (entry = readdir(d)) != NULL;)
			if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
			    is_left(new, entry->d_name))
				more = tree_remove(new, entry->d_name, &e) == 0 || more;
		(void)closedir(d);
	}
}

int content_new_open(int volume)
{
	int fd = openat(volume, "new", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	if (fd >= 0)
		sweep(fd);
	return fd;
}

int content_new_file(int new, char ret_name[32])
{
	for (int i = 0; i < 16; i++) {
		struct stat st;

		content_new_name("file", ret_name);
		OWN_FD fd = openat(new, ret_name,
				   O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
		if (fd < 0 && errno != EEXIST)
			return -1;
		/* Another child may have removed it before it was locked. */
		if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &st) == 0 &&
		    st.st_nlink > 0)
			return TAKE_FD(fd);
	}
	errno = EBUSY;
	return -1;
}
