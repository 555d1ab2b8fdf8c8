"""What binding anything needs: the state of a statement, the names in scope, operators, conversions between types.

May import the function registry, `values`, the IR, `types`, `syntax` and `catalog_data`. Read `statement` first, then
`scope`, `coercion` and `casting`.
"""
