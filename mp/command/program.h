// The whole program mp, less the backends that a main function links with it.
//
// Exit codes: 0 success, 1 failure of the work, 2 wrong usage.  An error is one line on stderr; on
// stdout there is nothing but the result.
#ifndef MP_COMMAND_PROGRAM_H_
#define MP_COMMAND_PROGRAM_H_

namespace mp::command {

// The exit code.  Once in a process.
int RunProgram(int argc, char** argv);

}  // namespace mp::command

#endif  // MP_COMMAND_PROGRAM_H_
