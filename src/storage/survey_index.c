#include "survey_index.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tar_member.h"

#define LINKS_MAX 4

/* "./a" and "/a" are "a". */
static const char *plain(const char *name)
{
	for (;;) {
		if (name[0] == '/')
			name++;
		else if (name[0] == '.' && name[1] == '/')
			name += 2;
		else
			return name;
	}
}

/* "x/../y" of a link in directory "x" is "y": as docker save writes links between layers. */
static void link_target(const struct tar_head *h, char ret[SURVEY_NAME_MAX])
{
	const char *target = plain(h->link);

	while (strncmp(target, "../", 3) == 0)
		target += 3;
	ret[0] = '\0';
	if (strlen(target) < SURVEY_NAME_MAX)
		memcpy(ret, target, strlen(target) + 1);
}

static int add(struct survey_index *x, const struct tar_member *m, uint64_t offset, struct err *e)
{
	const char *name = plain(m->head.path);
	struct survey_file *f;

	if (x->n == SURVEY_FILES_MAX || strlen(name) >= SURVEY_NAME_MAX) {
		x->too_many = x->too_many || x->n == SURVEY_FILES_MAX;
		return 0;
	}
	if (x->files == NULL)
		x->files = malloc(SURVEY_FILES_MAX * sizeof(*x->files));
	if (x->files == NULL)
		return err_set(e, ERR_SYSTEM, "out of memory");
	f = &x->files[x->n++];
	memcpy(f->name, name, strlen(name) + 1);
	f->link[0] = '\0';
	if (m->head.type != TAR_HEAD_FILE)
		link_target(&m->head, f->link);
	f->offset = offset;
	f->size = m->head.size;
	return 0;
}

static int list(struct tar_reader *tar, struct survey_index *x, struct err *e)
{
	static struct tar_member m; /* large */
	bool is_first = true;
	int rc;

	for (; (rc = tar_reader_next(tar, &m, e)) == 0; is_first = false) {
		bool is_link = m.head.type == TAR_HEAD_SYMLINK || m.head.type == TAR_HEAD_HARDLINK;

		if (((m.head.type == TAR_HEAD_FILE && !m.is_sparse) || is_link) &&
		    add(x, &m, tar_reader_at(tar), e) < 0)
			return -1;
	}
	if (rc < 0 && is_first && e->code == ERR_INVALID)
		return err_wrap(e, "not a tar archive, nor one in gzip or zstd");
	return rc < 0 ? -1 : 0;
}

int survey_index_read(int fd, uint64_t bytes_max, struct survey_index *ret, struct err *e)
{
	struct stream_in *in;
	struct tar_reader *tar;
	int result = -1;

	memset(ret, 0, sizeof(*ret));
	if (lseek(fd, 0, SEEK_SET) < 0)
		return err_sys(e, "the archive");
	in = stream_in_fd(fd, bytes_max, false, e);
	if (in == NULL)
		return -1;
	tar = tar_reader_new(in, e);
	if (tar != NULL)
		result = list(tar, ret, e);
	ret->compressed = stream_in_is_compressed(in);
	tar_reader_free(tar);
	stream_in_free(in);
	return result;
}

void survey_index_release(struct survey_index *x)
{
	free(x->files);
	memset(x, 0, sizeof(*x));
}

const struct survey_file *survey_index_find(const struct survey_index *x, const char *name)
{
	for (unsigned links = 0; links < LINKS_MAX; links++) {
		const struct survey_file *found = NULL;

		name = plain(name);
		for (size_t i = 0; i < x->n; i++)
			if (strcmp(x->files[i].name, name) == 0)
				found = &x->files[i]; /* the last one counts */
		if (found == NULL || found->link[0] == '\0')
			return found;
		name = found->link;
	}
	return NULL;
}
