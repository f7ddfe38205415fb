"""The nightly job: new cycle in, products, maps and skill out, with a record of everything."""
