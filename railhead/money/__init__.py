"""Money: amounts, prices and bills in Decimal, and the price tables that Railhead ships. Pure."""
