# cmake -DOUTPUT=FILE -DCOMPILER=TEXT -DHEADERS=LIST -P interface_id.cmake
#
# Writes a source file whose interface_id() tells these headers and this compiler from others.
set(text ${COMPILER})
foreach(header ${HEADERS})
  file(SHA256 ${header} hash)
  string(APPEND text ${hash})
endforeach()
string(SHA256 id "${text}")
file(WRITE ${OUTPUT} "#include \"backend/module_table.hpp\"

namespace dtrain::backend {

const char* interface_id() { return \"${id}\"; }

}  // namespace dtrain::backend
")
