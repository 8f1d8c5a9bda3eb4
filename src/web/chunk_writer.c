#include "chunk_writer.h"

void chunk_writer_init(struct chunk_writer *k, struct file_call *c, uint64_t known)
{
	*k = (struct chunk_writer){ .call = c, .known = known };
}

static bool send_head(struct chunk_writer *k)
{
	while (k->head_left > 0) {
		size_t n = file_op_input(k->call->op, k->head + sizeof(k->head) - k->head_left,
					 k->head_left);

		if (n == 0)
			return false;
		k->head_left -= n;
	}
	return true;
}

static void begin_chunk(struct chunk_writer *k, uint64_t len)
{
	k->chunk_left = len < FILE_MSG_CHUNK_MAX ? len : FILE_MSG_CHUNK_MAX;
	file_msg_chunk_write(k->head, (uint32_t)k->chunk_left);
	k->head_left = sizeof(k->head);
}

size_t chunk_writer_put(struct chunk_writer *k, const uint8_t *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		size_t part, n;

		if (k->call->op == NULL || k->call->failed)
			return len;
		/* An announced chunk that does not follow is read as an abort by the cell, which is
		 * intended. */
		if (k->chunk_left == 0)
			begin_chunk(k, k->known > len - done ? k->known : len - done);
		if (!send_head(k))
			return done;
		part = len - done < k->chunk_left ? len - done : (size_t)k->chunk_left;
		n = file_op_input(k->call->op, data + done, part);
		if (n == 0)
			return done;
		done += n;
		k->chunk_left -= n;
		k->known -= n < k->known ? n : k->known;
	}
	return done;
}

static void finish(struct chunk_writer *k)
{
	if (k->call->op == NULL || !send_head(k))
		return;
	k->ending = false;
	file_op_end_input(k->call->op);
}

void chunk_writer_end(struct chunk_writer *k)
{
	if (k->call->op == NULL)
		return;
	begin_chunk(k, 0);
	k->ending = true;
	finish(k);
}

bool chunk_writer_room(struct chunk_writer *k)
{
	if (k->call == NULL)
		return false;
	if (!k->ending)
		return true;
	finish(k);
	return false;
}
