#include "notary/notary_state.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/log.h"
#include "lib/base/rand.h"

static const char magic[] = "cordon-notary logs 1\n";

/* A slot: checksum of the rest, turn, size, root, origin, zeros. */
enum { SLOT_TURN = 32, SLOT_SIZE = 40, SLOT_ROOT = 48, SLOT_ORIGIN = 80 };

#define READ_BYTES ((size_t)64 * NOTARY_RECORD)

/* ---- the table of names
 *
 * Open addressing in a fixed table, at most a quarter full. */

/* The seed keeps clients from choosing names that collide. */
static uint64_t state_hash(const struct notary_state *s, const char *origin)
{
	uint8_t sum[SHA256_SIZE];
	struct sha256 h;
	uint64_t name;

	sha256_init(&h);
	sha256_add(&h, &s->seed, sizeof(s->seed));
	sha256_add(&h, origin, strlen(origin));
	sha256_end(&h, sum);
	memcpy(&name, sum, sizeof(name));
	return name;
}

/* The place of the name, or the free one where it belongs. */
static uint32_t *state_place(struct notary_state *s, uint64_t name, const char *origin)
{
	for (size_t i = name % NOTARY_TABLE;; i = (i + 1) % NOTARY_TABLE) {
		uint32_t *at = &s->table[i];

		if (*at == 0 ||
		    (s->logs[*at - 1].name == name && strcmp(s->logs[*at - 1].origin, origin) == 0))
			return at;
	}
}

struct notary_log *notary_state_find(struct notary_state *s, const char *origin)
{
	const uint32_t *at = state_place(s, state_hash(s, origin), origin);

	return *at == 0 ? NULL : &s->logs[*at - 1];
}

/* A new entry, which the table does not have yet. */
static struct notary_log *state_new(struct notary_state *s, struct err *e)
{
	if (s->n == s->room) {
		uint32_t room = s->room == 0 ? 64 : 2 * s->room;
		void *more = realloc(s->logs, room * sizeof(s->logs[0]));

		if (more == NULL) {
			(void)err_set(e, ERR_SYSTEM, "out of memory");
			return NULL;
		}
		s->logs = more;
		s->room = room;
	}
	return &s->logs[s->n];
}

/* The entry at s->n becomes known. */
static void state_enter(struct notary_state *s, struct notary_log *l)
{
	l->name = state_hash(s, l->origin);
	*state_place(s, l->name, l->origin) = ++s->n;
}

/* ---- slots
 *
 * Numbers are little endian, so the file is alike on every machine. */

static void notary_state_put64(uint8_t *p, uint64_t v)
{
	for (unsigned i = 0; i < 8; i++)
		p[i] = (uint8_t)(v >> (8 * i));
}

static uint64_t notary_state_get64(const uint8_t *p)
{
	uint64_t v = 0;

	for (unsigned i = 0; i < 8; i++)
		v |= (uint64_t)p[i] << (8 * i);
	return v;
}

/* The checksum covers everything behind it. */
static void slot_write(const struct notary_log *l, uint8_t slot[NOTARY_SLOT])
{
	memset(slot, 0, NOTARY_SLOT);
	notary_state_put64(slot + SLOT_TURN, l->turn);
	notary_state_put64(slot + SLOT_SIZE, l->size);
	memcpy(slot + SLOT_ROOT, l->root.bytes, TLOG_HASH);
	memcpy(slot + SLOT_ORIGIN, l->origin, strlen(l->origin));
	sha256_of(slot + SLOT_TURN, NOTARY_SLOT - SLOT_TURN, slot);
}

/* False: the slot was never written, or not whole. */
static bool slot_read(const uint8_t slot[NOTARY_SLOT], struct notary_log *ret)
{
	uint8_t sum[SHA256_SIZE];

	sha256_of(slot + SLOT_TURN, NOTARY_SLOT - SLOT_TURN, sum);
	if (memcmp(sum, slot, sizeof(sum)) != 0)
		return false;
	*ret = (struct notary_log){ .turn = notary_state_get64(slot + SLOT_TURN),
				    .size = notary_state_get64(slot + SLOT_SIZE) };
	memcpy(ret->root.bytes, slot + SLOT_ROOT, TLOG_HASH);
	memcpy(ret->origin, slot + SLOT_ORIGIN, sizeof(ret->origin) - 1);
	return ret->turn > 0 && ret->origin[0] != '\0' && ret->size <= TLOG_SIZE_MAX;
}

static bool is_zero(const uint8_t *bytes, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (bytes[i] != 0)
			return false;
	return true;
}

/* ---- reading the file */

enum record { RECORD_GOOD, RECORD_UNFINISHED, RECORD_DAMAGED };

/* The newer of two slots. */
static enum record record_read(const uint8_t *bytes, struct notary_log *ret)
{
	struct notary_log both[2];
	bool good[2];

	for (size_t i = 0; i < 2; i++) {
		good[i] = slot_read(bytes + i * NOTARY_SLOT, &both[i]);
		both[i].slot = (uint8_t)i;
	}
	if (good[0] && good[1] && strcmp(both[0].origin, both[1].origin) != 0)
		return RECORD_DAMAGED;
	if (!good[0] && !good[1])
		return is_zero(bytes + NOTARY_SLOT, NOTARY_SLOT) ? RECORD_UNFINISHED
								 : RECORD_DAMAGED;
	*ret = both[good[1] && (!good[0] || both[1].turn > both[0].turn)];
	return RECORD_GOOD;
}

/* A damaged record keeps its place, as later records are found by theirs. */
static int state_take(struct notary_state *s, const uint8_t *bytes, bool is_last, struct err *e)
{
	struct notary_log *l = state_new(s, e);
	enum record r;

	if (l == NULL)
		return -1;
	r = record_read(bytes, l);
	if (r == RECORD_UNFINISHED && is_last)
		return 0; /* its place is taken by the next log */
	if (r != RECORD_GOOD || notary_state_find(s, l->origin) != NULL) {
		log_error("a record of a log cannot be read: new logs are refused", "record=%u",
			  s->records);
		s->damaged++;
	} else {
		l->record = s->records;
		state_enter(s, l);
	}
	s->records++;
	return 0;
}

/* A last record cut short counts as one with zeros behind it. */
static int state_load(struct notary_state *s, off_t size, struct err *e)
{
	static uint8_t bytes[READ_BYTES];
	off_t at = NOTARY_RECORD;

	if ((size - 1) / NOTARY_RECORD > NOTARY_LOGS)
		return err_set(e, ERR_INVALID, "the file of logs is larger than any");
	while (at < size) {
		size_t want = sizeof(bytes);
		ssize_t n;

		if ((off_t)want > size - at)
			want = (size_t)(size - at);
		memset(bytes, 0, sizeof(bytes));
		n = pread(s->fd, bytes, want, at);
		if (n < 0 || (size_t)n != want)
			return err_sys(e, "read the file of logs");
		for (size_t i = 0; i < want; i += NOTARY_RECORD, at += NOTARY_RECORD)
			if (state_take(s, bytes + i, at + NOTARY_RECORD >= size, e) < 0)
				return -1;
	}
	return 0;
}

/* The folder is synced as well, or the file may be gone after a power cut. */
static int state_make(struct notary_state *s, int dir, struct err *e)
{
	uint8_t head[NOTARY_RECORD] = { 0 };

	memcpy(head, magic, sizeof(magic));
	if (pwrite(s->fd, head, sizeof(head), 0) != (ssize_t)sizeof(head) || fdatasync(s->fd) < 0 ||
	    fsync(dir) < 0)
		return err_sys(e, "write the file of logs");
	return 0;
}

int notary_state_open(struct notary_state *s, int dir, const char *name, bool create, struct err *e)
{
	uint8_t head[NOTARY_RECORD] = { 0 };
	struct stat st;

	*s = (struct notary_state){ .fd = -1 };
	rand_bytes(&s->seed, sizeof(s->seed));
	s->fd = openat(dir, name, O_RDWR | (create ? O_CREAT : 0) | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (s->fd < 0)
		return err_sys(e, "open the file of logs");
	if (fstat(s->fd, &st) < 0 || pread(s->fd, head, sizeof(head), 0) < 0)
		return err_sys(e, "read the file of logs");
	/* A kill may have come before the head was whole: then there is no record. */
	if (create && st.st_size <= NOTARY_RECORD && memcmp(head, magic, sizeof(magic)) != 0)
		return state_make(s, dir, e);
	if (memcmp(head, magic, sizeof(magic)) != 0)
		return err_set(e, ERR_INVALID,
			       "the file of logs is damaged, or of another version");
	return state_load(s, st.st_size, e);
}

void notary_state_close(struct notary_state *s)
{
	fd_close(s->fd);
	free(s->logs);
	*s = (struct notary_state){ .fd = -1 };
}

/* ---- changes
 *
 * The disk first, then the memory. No checkpoint is signed before both are done. */

/* A short write counts as a full disk. */
static int state_write(const struct notary_state *s, const struct notary_log *l, struct err *e)
{
	off_t at = ((off_t)l->record + 1) * NOTARY_RECORD + (off_t)l->slot * NOTARY_SLOT;
	uint8_t slot[NOTARY_SLOT];
	ssize_t n;

	slot_write(l, slot);
	n = pwrite(s->fd, slot, sizeof(slot), at);
	if (n >= 0 && n != (ssize_t)sizeof(slot)) {
		errno = ENOSPC;
		n = -1;
	}
	if (n < 0 || fdatasync(s->fd) < 0)
		return err_sys(e, "write the record of a log");
	return 0;
}

/* A new log's first slot. The other one stays zero. */
static int state_add(struct notary_state *s, const struct notary_log *from, struct err *e)
{
	struct notary_log *l;

	if (s->damaged > 0) {
		(void)err_set(e, ERR_SYSTEM, "%u records of logs cannot be read", s->damaged);
		return NOTARY_DAMAGED;
	}
	if (s->records >= NOTARY_LOGS) {
		(void)err_set(e, ERR_LIMIT, "%u logs are known, and no more fit", s->records);
		return NOTARY_FULL;
	}
	l = state_new(s, e);
	if (l == NULL)
		return NOTARY_DISK;
	*l = *from;
	l->record = s->records;
	l->turn = 1;
	if (state_write(s, l, e) < 0)
		return NOTARY_DISK;
	s->records++;
	state_enter(s, l);
	return 0;
}

/* The slot with the older values is overwritten. */
int notary_state_put(struct notary_state *s, const char *origin, uint64_t size,
		     const struct tlog_hash *root, struct err *e)
{
	struct notary_log *known = notary_state_find(s, origin);
	struct notary_log l = { .size = size, .root = *root };

	if (known == NULL) {
		memcpy(l.origin, origin, strnlen(origin, sizeof(l.origin) - 1));
		return state_add(s, &l, e);
	}
	l = *known;
	l.size = size;
	l.root = *root;
	l.turn++;
	l.slot = !known->slot;
	if (state_write(s, &l, e) < 0)
		return NOTARY_DISK;
	*known = l;
	return 0;
}
