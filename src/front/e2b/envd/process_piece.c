#include "front/e2b/envd/process_piece.h"

/* Records of one stream are joined. A record of the other stream ends the piece and is read by the
 * next call. */
enum process_piece process_piece_read(int fd, uint64_t *cursor, uint8_t *bytes, size_t cap,
				      enum output_stream *ret_stream, size_t *ret_n, size_t *spent)
{
	struct output_chunk chunk;
	bool passed = false;
	struct err e;

	*ret_n = 0;
	for (unsigned i = 0; i < PROCESS_PIECE_RECORDS && *ret_n < cap; i++) {
		int got = output_look(fd, cursor, &chunk, &e);

		*spent += OUTPUT_READ_COST;
		if (got > 0 && chunk.stream == OUTPUT_RESULT) {
			output_skip(cursor, &chunk);
			passed = true;
			continue;
		}
		if (got > 0 && *ret_n > 0 && chunk.stream != *ret_stream)
			return PROCESS_PIECE_DATA;
		if (got > 0 && chunk.stream == OUTPUT_CUT)
			return PROCESS_PIECE_CUT;
		if (got > 0)
			got = output_read(fd, cursor, &chunk, bytes + *ret_n, cap - *ret_n, &e);
		if (got < 0)
			return PROCESS_PIECE_FAILED;
		if (got == 0)
			return *ret_n > 0 ? PROCESS_PIECE_DATA : PROCESS_PIECE_NONE;
		*ret_stream = chunk.stream;
		*ret_n += chunk.len;
	}
	return *ret_n > 0 ? PROCESS_PIECE_DATA : passed ? PROCESS_PIECE_PASSED : PROCESS_PIECE_NONE;
}
