# Compiles src/models/recipes/*.{recipe,dialect} into the program as text, and the lists of what they were
# checked against and of how transformers saves models.
function(shardweld_embed_recipes target)
  file(GLOB files CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/models/recipes/*.recipe ${PROJECT_SOURCE_DIR}/src/models/recipes/*.dialect
    ${PROJECT_SOURCE_DIR}/src/models/recipes/*.list ${PROJECT_SOURCE_DIR}/src/models/recipes/generated/*)
  set(out ${CMAKE_BINARY_DIR}/generated/built_in_recipes.cpp)
  add_custom_command(OUTPUT ${out}
    COMMAND ${CMAKE_COMMAND} "-DFILES=${files}" -DOUT=${out} -P ${PROJECT_SOURCE_DIR}/cmake/embed.cmake
    DEPENDS ${files} ${PROJECT_SOURCE_DIR}/cmake/embed.cmake VERBATIM)
  target_sources(${target} PRIVATE ${out})
endfunction()
