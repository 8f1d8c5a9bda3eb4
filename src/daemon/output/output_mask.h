/* output_mask.h - output_log_move() for sessions with secrets: masks the output before it is
 * written to the log. Called by execution_io.c. */
#pragma once

#include "daemon/output/output_log.h"
#include "lib/mask/mask.h"

struct output_mask {
	struct mask_stream stream;
};

/* As output_log_move(), for at most `most` bytes. Afterwards output_mask_held() bytes that the mask
 * has seen are still in the pipe. */
int output_mask_move(struct output_mask *k, const struct mask *m, struct output_log *l,
		     enum output_stream stream, int pipe_fd, size_t most, uint64_t now_ms,
		     struct err *e) MUST_USE;
size_t output_mask_held(const struct output_mask *k);
/* Every MASK_TICK_MS while bytes are held: move those past their wait. */
void output_mask_tick(struct output_mask *k, const struct mask *m, struct output_log *l,
		      enum output_stream stream, int pipe_fd, uint64_t now_ms);
/* Move all held bytes. */
void output_mask_flush(struct output_mask *k, const struct mask *m, struct output_log *l,
		       enum output_stream stream, int pipe_fd, uint64_t now_ms);
void output_mask_release(struct output_mask *k);
