# Compiles a text into the program: std::string_view NAME() in shardweld::app.
function(shardweld_embed_text target name text)
  set(out ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include <string_view>

namespace shardweld::app {

std::string_view @name@();
std::string_view @name@() {
    return R"embedded(@text@)embedded";
}

}  // namespace shardweld::app
]])
  target_sources(${target} PRIVATE ${out})
endfunction()

# The style of the page that `report --html` writes, the page of exit codes that `help` shows, and what job scripts have in common,
# which those of `plan --sbatch` bring along.
function(shardweld_embed_texts target)
  set(style ${PROJECT_SOURCE_DIR}/src/app/report/run_page.css)
  set(codes ${PROJECT_SOURCE_DIR}/docs/using/errors.md)
  set(script ${PROJECT_SOURCE_DIR}/slurm/job.sh)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${style} ${codes} ${script})
  file(READ ${style} text)
  shardweld_embed_text(${target} run_page_style "${text}")
  file(READ ${codes} text)
  shardweld_embed_text(${target} exit_codes_page "${text}")
  file(READ ${script} text)
  shardweld_embed_text(${target} job_functions "${text}")
endfunction()
