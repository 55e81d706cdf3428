"""Money: amounts and bills in Decimal, pure."""
