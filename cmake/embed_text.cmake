# Compiles a text file into a module: std::string_view NAME() in the namespace.
function(shardweld_embed_text module namespace name file)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
  file(READ ${file} text)
  set(out ${CMAKE_BINARY_DIR}/generated/${name}.cpp)
  file(CONFIGURE OUTPUT ${out} @ONLY CONTENT [[
#include <string_view>

namespace @namespace@ {

std::string_view @name@();
std::string_view @name@() {
    return R"embedded(@text@)embedded";
}

}  // namespace @namespace@
]])
  target_sources(sw_${module} PRIVATE ${out})
endfunction()
