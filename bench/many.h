/* many.h - many clients or many sessions at a time. A connection that fails ends the program;
 * answers that are not as they should be are counted, and the first are shown. */
#pragma once

/* n creates at once on n connections. Prints "sessions TAB failed TAB first TAB median TAB last",
 * microseconds since the first byte was sent. Then deletes them. */
void many_burst(unsigned n);

/* Create, run, delete, and again, by n clients for so many seconds. Prints "clients TAB cycles TAB
 * failed TAB cycles per second TAB median TAB p99" of create + run + result, microseconds. */
void many_rate(unsigned n, unsigned seconds);

/* Makes n sessions, prints "made", waits for the end of its input, and deletes them. */
void many_hold(unsigned n);

/* Create, run, delete beside 1, 10, 100, ... up to n live sessions, one client, the pool full
 * before each. Prints for each step "live TAB samples TAB median TAB p99 of create TAB median TAB
 * p99 of create + run", microseconds. Then deletes all. */
void many_grow(unsigned n, unsigned rounds);
