/* output_log.h - the writing side of output.h: moves bytes from a program's pipe into its log.
 *
 * Bytes go by splice(2): at every moment each of them is either in the pipe, which PID 1 holds too,
 * or in the file. So a killed daemon loses none, and the next daemon continues where it stopped. */
#pragma once

#include "daemon/output/output.h"

struct output_log {
	int dir_fd; /* borrowed */
	int fd;	    /* owned. -1 until the first output */
	char name[32];
	uint64_t size;			  /* of the file */
	uint64_t limit;			  /* bytes kept of all streams together */
	uint64_t written[OUTPUT_STREAMS]; /* bytes read of each, kept or not */
	uint64_t kept;			  /* bytes of all */
	uint64_t noted;			  /* bytes of notes, with this limit for themselves */
	bool cut;			  /* something was not kept */
	const char *why;		  /* one of output.h's reasons, if cut */
	unsigned notes;			  /* since the last output */
	uint64_t room;	    /* by how much the file may grow now: set before each move */
	uint64_t asked;	    /* bytes for which room was made. Later bytes wait */
	bool wait_for_room; /* room comes later: other bytes stay in the pipe */
	/* A record that a killed daemon left incomplete, after size: see output_log_put(). len 0:
	 * none. */
	struct {
		enum output_stream stream;
		uint32_t len;
		uint64_t time_ms;
	} open;
};

/* Open a log for reading or writing. -1 and errno. Only a regular file is a log (otherwise EINVAL):
 * a FIFO would make the daemon wait for its other end. */
int output_log_open(int dir_fd, const char *name, int flags) MUST_USE;

void output_log_init(struct output_log *l, int dir_fd, const char *execution_id, uint64_t limit);
void output_log_release(struct output_log *l);

/* Open a log that an earlier daemon wrote, if there is one. Repair its last record, and count. An
 * unreadable log is cut: its content stays, nothing is added. */
int output_log_reopen(struct output_log *l, struct err *e) MUST_USE;

/* By how much the file would grow in the next move if there were room: 0 if nothing is in the pipe,
 * or if it would not be kept anyway. */
uint64_t output_log_need(const struct output_log *l, int pipe_fd);

/* The need for so many bytes, about to be appended. */
uint64_t output_log_need_for(const struct output_log *l, uint64_t bytes);

/* Move the pipe's bytes, about a MiB at most. Return 1 if there were bytes (without room they stay
 * in the pipe), 0 if there were none, -1 if the pipe is broken. Never block. An error of the disk
 * cuts the log and is not returned: it must not hold up the program. The mark of a cut is written
 * even if there is no room for it. */
int output_log_move(struct output_log *l, enum output_stream stream, int pipe_fd, uint64_t now_ms,
		    struct err *e) MUST_USE;

/* For output_mask.c, which changes bytes before they are written: how many bytes of the pipe the
 * next move may take. 0 if it must wait for room. */
size_t output_log_turn(const struct output_log *l, int there);
/* Write n bytes to the log in place of the next n of the pipe, and remove those from the pipe.
 * Without room, as output_log_move(). Readers do not see the record until the bytes are gone from
 * the pipe. */
void output_log_put(struct output_log *l, enum output_stream stream, int pipe_fd,
		    const uint8_t *bytes, size_t n, uint64_t now_ms);
/* Write n bytes that came from no pipe. As output_log_move(), but that nothing waits for room. */
void output_log_append(struct output_log *l, enum output_stream stream, const uint8_t *bytes,
		       size_t n, uint64_t now_ms);
/* Write a note (output.h) of n bytes. Nothing is written if there is no room for it, or beyond
 * OUTPUT_NOTES_MAX notes without output between them: readers of output pass over them. */
void output_log_note(struct output_log *l, enum output_stream stream, const void *bytes, size_t n,
		     uint64_t now_ms);
/* Mark the log as cut by so many bytes, left unread because the session or the call ends.
 */
void output_log_drop(struct output_log *l, enum output_stream stream, uint64_t n, uint64_t now_ms);
/* After output_log_reopen(), before anything else is written: completes the open record if its
 * bytes were taken from the pipe (-1: there is no pipe any more), else removes it. */
void output_log_settle(struct output_log *l, enum output_stream stream, int pipe_fd);
