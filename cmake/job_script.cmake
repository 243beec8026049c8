# Compiles the end of slurm/resume.sbatch, which job scripts of `plan --sbatch` share, into the program as text.
function(shardweld_embed_job_script target)
  set(script ${PROJECT_SOURCE_DIR}/slurm/resume.sbatch)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${script})
  file(READ ${script} text)
  string(FIND "${text}" "# From here on" at)
  string(SUBSTRING "${text}" ${at} -1 text)
  set(out ${CMAKE_BINARY_DIR}/generated/end_of_job_script.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include <string_view>

namespace shardweld::app {

std::string_view end_of_job_script();
std::string_view end_of_job_script() {
    return R"script(@text@)script";
}

}  // namespace shardweld::app
]])
  target_sources(${target} PRIVATE ${out})
endfunction()
