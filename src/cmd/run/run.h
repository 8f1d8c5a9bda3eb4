/* run.h - `cordon run`: one command, one cell, no daemon. */
#pragma once

int run_main(int argc, char **argv);
