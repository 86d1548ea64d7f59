// What `mp --version` prints.
#ifndef MP_COMMAND_VERSION_H_
#define MP_COMMAND_VERSION_H_

namespace mp::command {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace mp::command

#endif  // MP_COMMAND_VERSION_H_
