/* guest_evil.h - what the files of the hostile guest have in common; see guest_evil.c. */
#pragma once

/* A line on the console. */
void evil_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* The rings of the two devices. They return when all rounds are done. */
void evil_console(void);
void evil_disk(void);
