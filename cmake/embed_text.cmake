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

# The page of exit codes that `help` shows, and what people type who come from other tools.
function(shardweld_embed_texts target)
  set(codes ${PROJECT_SOURCE_DIR}/docs/using/errors.md)
  set(typed ${PROJECT_SOURCE_DIR}/python/commands/shardweld_commands/typed_words.txt)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${codes} ${typed})
  file(READ ${codes} text)
  shardweld_embed_text(${target} exit_codes_page "${text}")
  file(READ ${typed} text)
  shardweld_embed_text(${target} typed_words_text "${text}")
endfunction()
