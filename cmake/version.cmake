# Tells src/app/runtime/version.cpp the version and the git state of the sources.
# An archive that was unpacked inside another repository is not that repository's.
cmake_path(GET PROJECT_SOURCE_DIR PARENT_PATH above)
set(git ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${above} git -C ${PROJECT_SOURCE_DIR})
execute_process(COMMAND ${git} describe --always --dirty
  OUTPUT_VARIABLE SHARDWELD_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE git_failed)
if(git_failed OR SHARDWELD_GIT STREQUAL "")
  set(SHARDWELD_GIT "unknown")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/app/runtime/version.cpp PROPERTIES
  COMPILE_DEFINITIONS "SHARDWELD_VERSION=\"${PROJECT_VERSION}\";SHARDWELD_GIT=\"${SHARDWELD_GIT}\"")
# Configured again with the next commit, so that a report never names an older one.
execute_process(COMMAND ${git} rev-parse --path-format=absolute --git-path logs/HEAD
  OUTPUT_VARIABLE git_log OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(EXISTS "${git_log}")
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${git_log}")
endif()
