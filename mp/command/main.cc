// mp: tensor-parallel operations on files, from the command line.

#include "mp/command/program.h"

int main(int argc, char** argv) { return mp::command::RunProgram(argc, argv); }
