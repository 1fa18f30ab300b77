//! Conditions and computed fields: a subset of the Common Expression Language over columns.
