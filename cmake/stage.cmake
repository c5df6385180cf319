# dtrain_stage(NAME SOURCES ... STAGES ... LIBRARIES ...)
#
# A stage is a static library `dtrain_NAME` whose headers are included as "NAME/file.hpp". Its include folder holds
# nothing but a link to its own sources, so that only the stages named in STAGES (and theirs) can be included: a
# backward include does not compile.
function(dtrain_stage name)
  cmake_parse_arguments(STAGE "" "" "SOURCES;STAGES;LIBRARIES;PRIVATE_LIBRARIES" ${ARGN})
  set(room ${PROJECT_BINARY_DIR}/stages/${name})
  file(MAKE_DIRECTORY ${room})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${room}/${name} SYMBOLIC)

  add_library(dtrain_${name} STATIC ${STAGE_SOURCES})
  target_include_directories(dtrain_${name} PUBLIC $<BUILD_INTERFACE:${room}> $<INSTALL_INTERFACE:${DTRAIN_HEADERS}>)
  target_compile_features(dtrain_${name} PUBLIC cxx_std_20)
  list(TRANSFORM STAGE_STAGES PREPEND dtrain_)
  target_link_libraries(dtrain_${name} PUBLIC ${STAGE_STAGES} ${STAGE_LIBRARIES} PRIVATE ${STAGE_PRIVATE_LIBRARIES})
  dtrain_defaults(dtrain_${name})
  target_precompile_headers(dtrain_${name} REUSE_FROM dtrain_precompiled)
  dtrain_install_library(${name})
  install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/ DESTINATION ${DTRAIN_HEADERS}/${name} FILES_MATCHING PATTERN "*.hpp"
          PATTERN html EXCLUDE)
endfunction()

# The headers that nearly every file includes, compiled once.
file(WRITE ${PROJECT_BINARY_DIR}/precompiled.cpp "")
add_library(dtrain_precompiled STATIC ${PROJECT_BINARY_DIR}/precompiled.cpp)
target_link_libraries(dtrain_precompiled PRIVATE fmt::fmt Threads::Threads)
dtrain_defaults(dtrain_precompiled)
target_precompile_headers(dtrain_precompiled PRIVATE
  <algorithm> <array> <atomic> <chrono> <cmath> <cstdint> <cstring> <filesystem> <functional> <map> <memory>
  <optional> <span> <string> <string_view> <utility> <variant> <vector> <fmt/format.h>)

# dtrain_embed(OUTPUT NAME PATH ...) makes OUTPUT, in this folder's build folder, of html/assets.cpp.in, whose
# @DTRAIN_ASSET_NAME@ are the contents of the files.
function(dtrain_embed output)
  set(assets ${ARGN})
  while(assets)
    list(POP_FRONT assets name path)
    get_filename_component(path ${path} ABSOLUTE)
    file(READ ${path} DTRAIN_ASSET_${name})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  endwhile()
  configure_file(html/assets.cpp.in ${CMAKE_CURRENT_BINARY_DIR}/${output} @ONLY)
endfunction()
