// One element of a tensor as text: its value and, in hexadecimal, its bits.
#ifndef MP_FILES_ELEMENT_H_
#define MP_FILES_ELEMENT_H_

#include <string>

#include "mp/dtype.h"

namespace mp::files {

// "0.5 (bits 3f000000)".  `element` need not be aligned.
std::string ElementText(DType dtype, const void* element);

}  // namespace mp::files

#endif  // MP_FILES_ELEMENT_H_
