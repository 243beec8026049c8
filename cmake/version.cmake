# Tells src/app/version.cpp the version and the git state of the sources at configure time.
execute_process(COMMAND git -C ${PROJECT_SOURCE_DIR} describe --always --dirty
  OUTPUT_VARIABLE SHARDWELD_GIT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE git_failed)
if(git_failed OR SHARDWELD_GIT STREQUAL "")
  set(SHARDWELD_GIT "unknown")
endif()
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/app/version.cpp PROPERTIES
  COMPILE_DEFINITIONS "SHARDWELD_VERSION=\"${PROJECT_VERSION}\";SHARDWELD_GIT=\"${SHARDWELD_GIT}\"")
