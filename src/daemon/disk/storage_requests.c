/* storage_requests.c - the requests of storage_link.h about layers: each fills in its frame
 * (storage_msg.h) and passes it to storage_link_ask(). */
#include <assert.h>
#include <string.h>

#include "daemon/disk/storage_link.h"
#include "lib/base/str.h"

/* Deadlines that cordon-storage keeps. */
#define QUICK_MS 600000
#define UNPACK_MS 3600000

void storage_link_unpack(struct storage_link *s, struct storage_job *j,
			 const struct storage_unpack *r, int input)
{
	struct storage_unpack u = *r;

	u.head.op = STORAGE_UNPACK;
	if (u.head.deadline_ms == 0)
		u.head.deadline_ms = UNPACK_MS;
	storage_link_ask(s, j, &u, sizeof(u), &input, 1);
}

void storage_link_unpack_searched(struct storage_link *s, struct storage_job *j,
				  const struct storage_unpack *r, int input, int values, int found)
{
	struct storage_unpack u = *r;
	int fds[] = { input, values, found };

	u.head.op = STORAGE_UNPACK;
	u.flags |= values < 0 ? 0 : found < 0 ? STORAGE_SEARCH : STORAGE_SEARCH | STORAGE_NAME;
	if (u.head.deadline_ms == 0)
		u.head.deadline_ms = UNPACK_MS;
	storage_link_ask(s, j, &u, sizeof(u), fds, values < 0 ? 1 : found < 0 ? 2 : 3);
}

void storage_link_remove(struct storage_link *s, struct storage_job *j, const char *layer)
{
	struct storage_remove r = { .head = { .op = STORAGE_REMOVE, .deadline_ms = QUICK_MS } };

	str_copy(r.layer, layer);
	storage_link_ask(s, j, &r, sizeof(r), NULL, 0);
}

void storage_link_list(struct storage_link *s, struct storage_job *j, int fd)
{
	struct storage_list r = { .head = { .op = STORAGE_LIST, .deadline_ms = QUICK_MS } };

	storage_link_ask(s, j, &r, sizeof(r), &fd, 1);
}

static void on_looked(struct completion *done, const struct err *e)
{
	(void)e; /* the numbers came with the answer, or are those of the next one */
}

void storage_link_look(struct storage_link *s)
{
	const struct storage_list r = { .head = { .op = STORAGE_LOOK, .deadline_ms = QUICK_MS } };

	if (s->look.call != NULL)
		return;
	s->look.done = (struct completion){ .on_done = on_looked, .arg = s };
	storage_link_ask(s, &s->look, &r, sizeof(r), NULL, 0);
}

void storage_link_arrange(struct storage_link *s, struct storage_job *j, const char *layer,
			  const char (*lower)[STORAGE_ID_MAX], unsigned n, const char *host)
{
	struct storage_arrange r = { .head = { .op = STORAGE_ARRANGE, .deadline_ms = QUICK_MS },
				     .nlower = n };

	assert(n <= STORAGE_STACK_MAX);
	str_copy(r.layer, layer);
	str_copy(r.host, host);
	memcpy(r.lower, lower, n * sizeof(r.lower[0]));
	storage_link_ask(s, j, &r, sizeof(r), NULL, 0);
}

void storage_link_survey(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			 uint32_t reserve_percent, int archive, int spare, int result)
{
	const struct storage_survey r = { .head = { .op = STORAGE_SURVEY,
						    .deadline_ms = UNPACK_MS },
					  .bytes_max = bytes_max,
					  .reserve_percent = reserve_percent };
	const int fds[] = { archive, spare, result };

	storage_link_ask(s, j, &r, sizeof(r), fds, COUNT(fds));
}

void storage_link_fold_above(struct storage_link *s, struct storage_job *j, const char *layer,
			     const char (*from)[STORAGE_ID_MAX], unsigned n, unsigned stay,
			     uint32_t below, const char *base)
{
	struct storage_fold r = { .head = { .op = STORAGE_FOLD, .deadline_ms = QUICK_MS },
				  .flags = below,
				  .nfrom = n,
				  .nbelow = stay,
				  .reserve_percent = s->reserve_percent };

	assert(n <= STORAGE_STACK_MAX && stay < n);
	str_copy(r.layer, layer);
	str_copy(r.base, base);
	memcpy(r.from, from, n * sizeof(r.from[0]));
	storage_link_ask(s, j, &r, sizeof(r), NULL, 0);
}

void storage_link_fold(struct storage_link *s, struct storage_job *j, const char *layer,
		       const char (*from)[STORAGE_ID_MAX], unsigned n)
{
	storage_link_fold_above(s, j, layer, from, n, 0, STORAGE_FOLD_BOTTOM, "");
}

void storage_link_root_make(struct storage_link *s, struct storage_job *j,
			    const struct storage_root *r)
{
	struct storage_root o = *r;

	o.head = (struct storage_head){ .op = STORAGE_ROOT_MAKE, .deadline_ms = UNPACK_MS };
	storage_link_ask(s, j, &o, sizeof(o), NULL, 0);
}

void storage_link_root_open(struct storage_link *s, struct storage_job *j, const char *layer)
{
	struct storage_remove r = { .head = { .op = STORAGE_ROOT_OPEN, .deadline_ms = QUICK_MS } };

	str_copy(r.layer, layer);
	storage_link_ask(s, j, &r, sizeof(r), NULL, 0);
}

void storage_link_memory_save(struct storage_link *s, struct storage_job *j, const char *layer,
			      uint64_t bytes_max, unsigned reserve_percent, const int fds[2])
{
	struct storage_memory r = { .head = { .op = STORAGE_MEMORY_SAVE, .deadline_ms = QUICK_MS },
				    .reserve_percent = reserve_percent,
				    .bytes_max = bytes_max };

	str_copy(r.layer, layer);
	storage_link_ask(s, j, &r, sizeof(r), fds, 2);
}

void storage_link_memory_load(struct storage_link *s, struct storage_job *j, const char *layer,
			      const int fds[2])
{
	struct storage_memory r = { .head = { .op = STORAGE_MEMORY_LOAD,
					      .deadline_ms = QUICK_MS } };

	str_copy(r.layer, layer);
	storage_link_ask(s, j, &r, sizeof(r), fds, 2);
}

void storage_link_memory_copy(struct storage_link *s, struct storage_job *j, uint64_t bytes_max,
			      const int from[2], const int to[2])
{
	const struct storage_memory r = { .head = { .op = STORAGE_MEMORY_COPY,
						    .deadline_ms = QUICK_MS },
					  .bytes_max = bytes_max };
	const int fds[] = { from[0], from[1], to[0], to[1] };

	storage_link_ask(s, j, &r, sizeof(r), fds, COUNT(fds));
}
