/* execution_marks.h - events of output: where an execution's log was at a time, so that the
 * timeline of a session shows when there was output, and a reader can begin there.
 *
 * An execution that writes output has one every five seconds at first, then one each time it has
 * run a sixteenth longer: about 130 in a day. Its end tells how much it wrote after the last
 * one. */
#pragma once

struct execution;
struct session;

/* Called by session_sample.c, every few seconds for sessions in use. */
void execution_marks_look(struct session *s);
/* The log of an execution of an earlier daemon was opened: that daemon marked the bytes already in
 * it. */
void execution_marks_begin(struct execution *x);
